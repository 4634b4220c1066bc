// Lines of a certificate as terms. Every node goes through the constructors of the pool, so whatever the lines say, what is read is a term in
// normal form. What a line may say is checked here; whether a term is the right one is not this reader's to judge.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "solvers/kernel/term_pool.h"

namespace shardproof::verifier {

// A line that is none of a certificate, or that says what cannot be.
class MalformedLine : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The words of one line.
class Words {
 public:
  explicit Words(std::string_view line) : rest_(line) {}
  bool done() const { return rest_.empty(); }
  std::string_view next();
  std::string name();  // spelled by as_word
  std::int64_t integer();
  std::int64_t integer(std::int64_t lo, std::int64_t hi);  // lo <= it <= hi
  ir::Rational rational();

 private:
  std::string_view rest_;
};

class TermReader {
 public:
  explicit TermReader(solvers::TermPool& pool) : pool_(pool) {}

  // Tensors in the order of their numbers.
  void add_tensor(solvers::TensorId tensor) { tensors_.push_back(tensor); }
  std::size_t tensors() const { return tensors_.size(); }

  // A line of a node. Throws MalformedLine, and what the pool throws.
  void node(std::string_view line);

  solvers::TermId term(Words& words) const { return at(terms_, words).id; }
  solvers::VarId variable(Words& words) const { return at(variables_, words); }

 private:
  template <typename T>
  static const T& at(const std::vector<T>& list, Words& words) {
    return list[static_cast<std::size_t>(words.integer(0, static_cast<std::int64_t>(list.size()) - 1))];
  }
  struct Term {
    solvers::TermId id;
    int depth = 0;
  };
  struct Index {
    solvers::IndexId id;
    int depth = 0;
  };
  solvers::VarId read_variable(std::string_view kind, Words& words);
  Index read_atom(std::string_view kind, Words& words);
  Index read_index(Words& words);
  solvers::TermId read_poly(Words& words);
  solvers::TermId read_term(std::string_view kind, Words& words);
  solvers::TermId operand(Words& words);
  solvers::TensorId tensor(Words& words) const { return at(tensors_, words); }
  std::vector<solvers::IndexId> indices_of(solvers::TensorId tensor, Words& words, int* depth);

  solvers::TermPool& pool_;
  std::vector<solvers::TensorId> tensors_;
  std::vector<solvers::VarId> variables_;
  std::vector<Index> atoms_, indices_;
  std::vector<Term> terms_;
  int depth_ = 0;  // of the operands of the term that is being read
  std::int64_t binders_ = 0;
};

}  // namespace shardproof::verifier
