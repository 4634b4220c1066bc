#include "verifier/certificate/digest.h"

#include <openssl/evp.h>

#include <array>
#include <sstream>

#include "ir/check.h"
#include "ir/print.h"

namespace shardproof::verifier {

std::string sha256(std::string_view bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  SHARDPROOF_CHECK(EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, EVP_sha256(), nullptr) == 1);
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (unsigned int i = 0; i < size; ++i) {
    text += kDigits[digest[i] >> 4U];
    text += kDigits[digest[i] & 15U];
  }
  return text;
}

DocumentDigests digests_of(const ir::Document& document) {
  const auto digest = [](const ir::Document& d) {
    std::ostringstream out;
    ir::print_json(d, out);
    return sha256(std::move(out).str());
  };
  ir::Document alone;
  alone.reference = document.reference;
  alone.plan.meshes.emplace_back();
  alone.plan.stages.emplace_back();
  return {digest(document), digest(alone)};
}

}  // namespace shardproof::verifier
