// Faults put into good plans. A kind names one sort of mistake; a site is one place of one plan where it can be made.
// Names of values are used to find sites, which only a test may do. Every site is a real fault: an edit that changes
// nothing over the reals (a common shift of logits, a maximum taken twice) is left out by construction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/plan.h"

namespace shardproof::mutations {

using AttrPairs = std::vector<std::pair<std::string, ir::AttrValue>>;

// Thrown by an edit whose site turns out not to fit: the mutant is not made.
struct NotApplicable {};

// A private copy of a document, with edits of its (only) stage program. Edits keep the name of the value they change,
// so that everything that reads it reads the faulty one.
class Editor {
 public:
  explicit Editor(const ir::Document& base);

  const ir::Document& document() const { return document_; }
  ir::Document take() { return std::move(document_); }
  ir::Plan& plan() { return document_.plan; }
  ir::StageProgram& stage() { return document_.plan.stages.front(); }
  ir::Program& program() { return stage().program; }

  // The instruction that defines `name`. Invalid after any insertion. NotApplicable if there is none.
  ir::Instruction& at(std::string_view name);
  ir::ValueId value(std::string_view name) const;  // NotApplicable if there is none
  const ir::TensorType& type(ir::ValueId id) const { return document_.plan.stages.front().program.value(id).type; }
  const std::string& name(ir::ValueId id) const { return document_.plan.stages.front().program.value(id).name; }
  std::int64_t axis_size(const std::string& axis) const;
  bool has_axis(const std::string& axis) const;

  // New instructions go directly before the definition of `name`.
  void before(std::string_view name);
  ir::ValueId emit(ir::OpCode op, std::vector<ir::ValueId> inputs, AttrPairs attributes = {});
  ir::ValueId typed(ir::OpCode op, ir::TensorType type, AttrPairs attributes);
  ir::ValueId constant(ir::Rational value, const ir::TensorType& type);
  ir::ValueId coordinate(ir::CoordExpr value);  // i64 scalar

  // Another definition of `name`, in its place.
  void redefine(std::string_view name, ir::OpCode op, std::vector<ir::ValueId> inputs, AttrPairs attributes = {});
  void become(std::string_view name, ir::ValueId same);  // the value `same` itself; types must agree
  void become_operand(std::string_view name, std::size_t operand);
  // Moves the definition of `name` to a fresh value, which it returns; the insertion point is after it. `name` must be
  // given a new definition with `define`.
  ir::ValueId displace(std::string_view name);
  void define(std::string_view name, ir::OpCode op, std::vector<ir::ValueId> inputs, AttrPairs attributes = {});
  void scale(std::string_view name, ir::Rational factor);  // the value times a factor
  void set(std::string_view name, const std::string& attribute, ir::AttrValue value);
  void use(std::string_view name, std::size_t operand, ir::ValueId instead);  // one operand replaced

  // What was touched, for judging the place a report blames.
  const std::vector<std::string>& touched() const { return touched_; }
  void touch(std::string_view name) { touched_.emplace_back(name); }
  // What deleted instructions, and instructions that lost operands, had read.
  const std::vector<std::string>& lost() const { return lost_; }

 private:
  struct Place {
    std::vector<ir::Instruction>* body = nullptr;
    std::size_t index = 0;
  };
  Place find(std::string_view name);
  std::vector<ir::TensorType> infer(const ir::Instruction& instruction, const std::vector<ir::TensorType>& declared) const;
  ir::ValueId insert(ir::Instruction instruction, const std::vector<ir::TensorType>& declared);

  ir::Document document_;
  Place cursor_;
  std::vector<std::string> touched_, lost_;
  int fresh_ = 0;
};

// One base plan with its instructions listed.
struct Subject {
  struct Entry {
    const ir::Instruction* instruction = nullptr;
    std::string name;  // of the first result
    bool in_loop = false;
  };
  Subject(std::string plan_name, ir::Document base);
  const ir::TensorType& type(ir::ValueId id) const { return document.plan.stages.front().program.value(id).type; }
  const std::string& value_name(ir::ValueId id) const { return document.plan.stages.front().program.value(id).name; }
  std::int64_t axis_size(const std::string& axis) const;

  std::string name;
  ir::Document document;
  std::vector<Entry> entries;  // in order, loop bodies in place
};

using Edit = std::function<void(Editor& editor, const std::string& at)>;

struct Site {
  std::string at;  // value, state, input or buffer
  Edit edit;
};

struct Kind {
  std::string name;
  std::function<std::vector<Site>(const Subject&)> find;
};
using Kinds = std::vector<Kind>;

// Sites of `edit` at every instruction whose first result matches `glob` ('*' for any characters).
Kind at_names(std::string kind, std::string glob, Edit edit);
// Sites at every instruction that `accept` takes.
using Accept = std::function<bool(const Subject&, const Subject::Entry&)>;
Kind at_instructions(std::string kind, Accept accept, Edit edit);
bool matches(std::string_view glob, std::string_view text);

// ---- the kinds, one file per family
Kinds collective_kinds();
Kinds placement_kinds();
Kinds layer_kinds();
Kinds loss_kinds();
Kinds accumulation_kinds();
Kinds optimizer_kinds();
Kinds context_kinds();
Kinds all_kinds();

// ---- base plans: small, but every extent and degree differs where it can
std::vector<Subject> base_plans();
// With context parallelism: every piece of a sequence is two, and what is wrong shows later than in the others.
std::vector<Subject> context_plans();

}  // namespace shardproof::mutations
