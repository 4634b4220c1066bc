// A plan with repairs made, and what that changes in its file.
#pragma once

#include <set>
#include <vector>

#include "ir/plan.h"
#include "verifier/repairs.h"

namespace shardproof::verifier {

class Patch {
 public:
  explicit Patch(const ir::Document& document) : document_(document) {}

  // False if the repair cannot be written as a change of the plan's own instructions (it is inside a macro, or a state
  // takes a loop's result as it is); nothing is changed then.
  bool apply(const Session& session, const Repair& repair);
  const ir::Document& document() const { return document_; }
  // Edits of the file that the document was read from, none of which overlap; none if it was not read from a file.
  std::vector<ir::Edit> edits() const;

 private:
  struct Place {
    std::vector<ir::Instruction>* body = nullptr;
    std::size_t index = 0;
  };
  Place definition(std::vector<ir::Instruction>& body, ir::ValueId value) const;
  bool apply_to_claim(const Claim& claim, ir::ValueId value);
  bool insert_behind_loop(const Repair& repair);
  ir::Program& program() { return document_.plan.stages.front().program; }
  ir::ValueId new_value(ir::ValueId like, const std::string& suffix);
  void collect(const std::vector<ir::Instruction>& body, std::vector<ir::Edit>& edits) const;
  std::string line_break(ir::Span span) const;

  ir::Document document_;
  std::set<ir::ValueId> changed_, added_;  // first results of the instructions
};

}  // namespace shardproof::verifier
