// Terms as lines of a certificate, each node once.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "solvers/kernel/term_pool.h"

namespace shardproof::verifier {

// A name as one word: blanks, control characters and % are spelled %XX.
std::string as_word(std::string_view name);

class TermWriter {
 public:
  // `number_of`: of a tensor in the certificate.
  TermWriter(const solvers::TermPool& pool, std::function<std::int64_t(solvers::TensorId)> number_of) : pool_(pool), number_of_(std::move(number_of)) {}

  // Writes what is new of it; returns its number.
  std::int64_t term(solvers::TermId term);
  std::int64_t variable(solvers::VarId variable);

  void line(const std::string& text) {
    text_ += text;
    text_ += '\n';
    ++lines_;
  }
  const std::string& text() const { return text_; }
  std::int64_t lines() const { return lines_; }

 private:
  using Numbers = std::unordered_map<std::int32_t, std::int64_t>;
  std::int64_t index(solvers::IndexId index);
  std::int64_t atom(solvers::AtomId atom);
  std::int64_t add(Numbers& numbers, std::int32_t id, const std::string& text);

  const solvers::TermPool& pool_;
  std::function<std::int64_t(solvers::TensorId)> number_of_;
  std::string text_;
  std::int64_t lines_ = 0;
  Numbers variables_, atoms_, indices_, terms_;
};

}  // namespace shardproof::verifier
