// SHA-256 of texts and of documents in their canonical form.
#pragma once

#include <string>
#include <string_view>

#include "ir/plan.h"

namespace shardproof::verifier {

std::string sha256(std::string_view bytes);  // 64 hexadecimal digits

// Of the canonical form (ir/print.h): spelling and order of fields in the file do not matter, everything else does.
struct DocumentDigests {
  std::string plan;       // the whole document
  std::string reference;  // the reference alone
};
DocumentDigests digests_of(const ir::Document& document);

}  // namespace shardproof::verifier
