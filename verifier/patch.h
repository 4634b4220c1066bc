// A plan with repairs made, and what that changes in its file.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/plan.h"
#include "verifier/repairs.h"

namespace shardproof::verifier {

class Patch {
 public:
  explicit Patch(const ir::Document& document) : original_(document), document_(document) {}

  // False if the repair cannot be written as a change of the plan file (it is inside a macro, or a state takes a loop's
  // result as it is); nothing is changed then.
  bool apply(const Session& session, const Repair& repair);
  const ir::Document& document() const { return document_; }
  // Edits of the file that the document was read from, none of which overlap; none if it was not read from a file.
  std::vector<ir::Edit> edits() const;

 private:
  bool apply_to_claim(const Claim& claim, ir::ValueId value);
  bool insert_behind_loop(const Repair& repair);
  ir::Program& program() { return document_.plan.stages.front().program; }
  ir::ValueId new_value(ir::ValueId like, const std::string& suffix);
  using Originals = std::map<ir::ValueId, const ir::Instruction*>;  // by first result
  void collect(const std::vector<ir::Instruction>& body, const Originals& originals, std::vector<ir::Edit>& edits) const;
  void collect_loop(const ir::Region& region, const ir::Region& original, std::vector<ir::Edit>& edits) const;
  void collect_declarations(std::vector<ir::Edit>& edits) const;
  std::string line_break(ir::Span span) const;

  const ir::Document& original_;
  ir::Document document_;
};

// The instruction of the body, or of loops in it, that defines the value; null if there is none. Loops on the way are made
// the document's own, as copies of documents share them.
ir::Instruction* own_definition(std::vector<ir::Instruction>& body, ir::ValueId value);

}  // namespace shardproof::verifier
