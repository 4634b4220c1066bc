#include "verifier/smt_answers.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "verifier/certificate/digest.h"

namespace shardproof::verifier {

namespace {

constexpr std::string_view kMagic = "shardproof-answers ";
constexpr std::size_t kHash = 64;     // hexadecimal digits
constexpr std::size_t kCheck = 8;     // of a line
constexpr std::uintmax_t kMaxBytes = std::uintmax_t{64} << 20U;  // a greater file is begun anew
constexpr std::size_t kMaxAnswer = 300;

std::string check_of(const std::string& line) { return sha256(line).substr(0, kCheck); }

bool is_one_line(const std::string& text) { return text.find_first_of("\r\n") == std::string::npos && text.size() <= kMaxAnswer; }

bool write_all(int file, const std::string& text) { return ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()); }

}  // namespace

SmtAnswers::SmtAnswers(std::string path, std::string version) : path_(std::move(path)), header_(std::string(kMagic) + "1 " + std::move(version) + "\n") {
  if (path_.empty()) return;
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path_, error);
  replaceable_ = status.type() == std::filesystem::file_type::not_found;
  if (status.type() != std::filesystem::file_type::regular) return;
  const std::uintmax_t bytes = std::filesystem::file_size(path_, error);
  std::ifstream in(path_, std::ios::binary);
  if (error || !in) return;
  std::string start(std::min<std::uintmax_t>(bytes, header_.size()), ' ');
  if (!in.read(start.data(), static_cast<std::streamsize>(start.size()))) return;
  replaceable_ = bytes == 0 || start.starts_with(kMagic);
  if (start != header_ || bytes > kMaxBytes) return;
  current_ = true;
  std::string line;
  while (std::getline(in, line)) {  // hash, check, answer
    if (line.size() < kHash + kCheck + 2 || line[kHash] != ' ' || line[kHash + kCheck + 1] != ' ') continue;
    const std::string hash = line.substr(0, kHash), answer = line.substr(kHash + kCheck + 2);
    if (is_one_line(answer) && check_of(hash + answer) == line.substr(kHash + 1, kCheck)) known_[hash] = answer;
  }
}

std::optional<std::string> SmtAnswers::find(const std::string& question) const {
  if (path_.empty()) return std::nullopt;
  const auto it = known_.find(sha256(question));
  return it == known_.end() ? std::nullopt : std::optional(it->second);
}

void SmtAnswers::add(const std::string& question, const std::string& answer) {
  if (!path_.empty() && is_one_line(answer)) added_[sha256(question)] = answer;
}

bool SmtAnswers::save() {
  if (path_.empty() || added_.empty()) return true;
  std::string text;
  for (const auto& [hash, answer] : added_) text += hash + " " + check_of(hash + answer) + " " + answer + "\n";
  return current_ ? append(text) : begin_anew(text);
}

// A new file takes the place of one with answers of another version.
bool SmtAnswers::begin_anew(const std::string& text) const {
  if (!replaceable_) return false;
  std::string fresh = path_ + ".XXXXXX";
  const int file = ::mkstemp(fresh.data());
  if (file < 0) return false;
  bool written = write_all(file, header_ + text);
  written = ::close(file) == 0 && written;
  std::error_code error;
  if (written) std::filesystem::rename(fresh, path_, error);
  if (written && !error) return true;
  std::filesystem::remove(fresh, error);
  return false;
}

bool SmtAnswers::append(const std::string& text) const {
  const int file = ::open(path_.c_str(), O_RDWR | O_APPEND | O_CLOEXEC);
  if (file < 0) return false;
  // Another version may have begun it anew since it was read.
  std::string start(header_.size(), ' ');
  const bool current = ::pread(file, start.data(), start.size(), 0) == static_cast<ssize_t>(start.size()) && start == header_;
  const bool written = current && write_all(file, text);  // one call: lines of several processes do not mix
  ::close(file);
  return written;
}

}  // namespace shardproof::verifier
