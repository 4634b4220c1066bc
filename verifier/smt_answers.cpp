#include "verifier/smt_answers.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>

#include "verifier/certificate/digest.h"

namespace shardproof::verifier {

namespace {

constexpr std::size_t kHash = 64;     // hexadecimal digits
constexpr std::size_t kCheck = 8;     // of a line
constexpr std::uintmax_t kMaxBytes = std::uintmax_t{64} << 20U;  // a greater file is begun anew
constexpr std::size_t kMaxAnswer = 300;

std::string check_of(const std::string& line) { return sha256(line).substr(0, kCheck); }

bool is_one_line(const std::string& text) { return text.find_first_of("\r\n") == std::string::npos && text.size() <= kMaxAnswer; }

}  // namespace

SmtAnswers::SmtAnswers(std::string path, std::string version) : path_(std::move(path)), header_("shardproof-answers 1 " + std::move(version)) {
  if (path_.empty()) return;
  std::error_code error;
  const std::uintmax_t bytes = std::filesystem::file_size(path_, error);
  if (error || bytes > kMaxBytes) return;
  std::ifstream in(path_, std::ios::binary);
  std::string line;
  if (!std::getline(in, line) || line != header_) return;
  current_ = true;
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
  if (!current_) {  // a new file takes the place of one that says nothing here
    const std::string fresh = path_ + "." + std::to_string(::getpid());
    std::ofstream out(fresh, std::ios::binary | std::ios::trunc);
    out << header_ << "\n" << text;
    out.close();
    std::error_code error;
    if (out) std::filesystem::rename(fresh, path_, error);
    if (!out || error) std::filesystem::remove(fresh, error);
    return static_cast<bool>(out) && !error;
  }
  const int file = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (file < 0) return false;
  const ssize_t written = ::write(file, text.data(), text.size());  // one call: lines of several processes do not mix
  ::close(file);
  return written == static_cast<ssize_t>(text.size());
}

}  // namespace shardproof::verifier
