#include "verifier/structure/reshard.h"

#include <algorithm>
#include <map>
#include <set>

#include "verifier/structure/holdings.h"

namespace shardproof::verifier::structure {

namespace {

std::string quoted(const std::string& name) { return "`" + name + "`"; }

// Which keys of a checkpoint hold a tensor, and in which type.
struct Saved {
  std::map<std::string, std::map<std::string, ir::DType>> of_tensor;  // tensor, key
  std::map<std::string, std::set<std::string>> of_key;                // tensors
};

Saved saved_in(const ir::Document& document, const std::vector<Holding>& holdings) {
  std::map<std::string, std::string> key_of;  // state
  for (const ir::CheckpointEntry& entry : document.plan.checkpoint) key_of.emplace(entry.state, entry.key);
  Saved saved;
  for (const Holding& holding : holdings) {
    const auto key = key_of.find(holding.state->name);
    if (key == key_of.end()) continue;
    const std::string& tensor = document.reference.program.value(holding.reference).name;
    // Replicas of one key may differ in type: which of them is written is not said.
    const auto [known, fresh] = saved.of_tensor[tensor].emplace(key->second, holding.dtype);
    if (!fresh && ir::byte_size(holding.dtype) < ir::byte_size(known->second)) known->second = holding.dtype;
    saved.of_key[key->second].insert(tensor);
  }
  return saved;
}

int kind_of(ir::DType t) { return ir::is_float(t) ? 0 : ir::is_integer(t) ? 1 : 2; }

class Reshard {
 public:
  Reshard(const ir::Document& saved, const ir::Document& resumed)
      : saved_(saved), resumed_(resumed), index_(resumed.reference), holdings_(holdings_of(resumed, index_)), violations_(findings_.violations), warnings_(findings_.warnings) {
    const ir::ReferenceIndex index(saved.reference);
    in_checkpoint_ = saved_in(saved, holdings_of(saved, index));
    in_resumed_ = saved_in(resumed, holdings_);
    for (const ir::CheckpointEntry& entry : resumed.plan.checkpoint) entry_of_.emplace(entry.state, &entry);
  }

  Findings run() {
    references();
    for (const ir::CheckpointEntry& entry : resumed_.plan.checkpoint) key(entry);
    for (const Holding& holding : holdings_) load(holding);
    return std::move(findings_);
  }

 private:
  ir::Diagnostic finding(std::string code, std::string name, std::string message, ir::Span span, std::string expected, std::string found, std::string fix) {
    ir::Diagnostic d = ir::make_error(std::move(code), std::move(name), std::move(message), span, std::move(expected), std::move(found));
    d.labels.front().text = "here";
    d.fix = ir::Fix{std::move(fix), {}, ir::Applicability::display_only};
    return d;
  }

  void references() {
    std::map<std::string, const ir::ReferenceState*> own;
    for (const ir::ReferenceState& state : resumed_.reference.state) own.emplace(state.name, &state);
    for (const ir::ReferenceState& state : saved_.reference.state) {
      const ir::TensorType& type = saved_.reference.program.value(state.value).type;
      const auto found = own.find(state.name);
      if (found == own.end()) {
        ir::Diagnostic d = finding("SP0507", "not-in-checkpoint", "the checkpoint has " + quoted(state.name) + ", which the resumed plan does not go on with", resumed_.plan.checkpoint.empty() ? ir::Span{} : resumed_.plan.checkpoint.front().span,
                                   "the same states in both references", "a state that would be lost", "resume with a reference that has the state");
        d.subject.reference = state.name;
        violations_.add(std::move(d), "lost " + state.role);
        continue;
      }
      const ir::ReferenceState& other = *found->second;
      const ir::TensorType& own_type = resumed_.reference.program.value(other.value).type;
      if (type.shape != own_type.shape || kind_of(type.dtype) != kind_of(own_type.dtype)) {
        ir::Diagnostic d = finding("SP0507", "not-in-checkpoint", quoted(state.name) + " of the checkpoint is another tensor than that of the resumed plan", other.span, ir::to_string(own_type), ir::to_string(type), "resume with the model that was saved");
        d.subject.reference = state.name;
        violations_.add(std::move(d), "type");
        unlike_.insert(state.name);
      } else if (state.role != other.role || state.param != other.param) {
        const auto text = [](const ir::ReferenceState& s) { return quoted(s.role) + (s.param.empty() ? "" : " of " + quoted(s.param)); };
        ir::Diagnostic d = finding("SP0507", "not-in-checkpoint", quoted(state.name) + " of the checkpoint has another role than in the resumed plan", other.span, text(other), text(state), "resume with the optimizer whose state was saved");
        d.subject.reference = state.name;
        violations_.add(std::move(d), "role");
      }
    }
  }

  static std::string list(const std::set<std::string>& tensors) {
    std::string text;
    std::size_t shown = 0;
    for (const std::string& name : tensors) {
      if (++shown > 3) return text + ", ... (" + std::to_string(tensors.size()) + ")";
      text += (text.empty() ? "" : ", ") + quoted(name);
    }
    return text;
  }

  void key(const ir::CheckpointEntry& entry) {
    const auto there = in_checkpoint_.of_key.find(entry.key);
    const auto here = in_resumed_.of_key.find(entry.key);
    if (there == in_checkpoint_.of_key.end() || here == in_resumed_.of_key.end() || there->second == here->second) return;
    std::set<std::string> more, fewer;
    std::set_difference(here->second.begin(), here->second.end(), there->second.begin(), there->second.end(), std::inserter(more, more.end()));
    std::set_difference(there->second.begin(), there->second.end(), here->second.begin(), here->second.end(), std::inserter(fewer, fewer.end()));
    ir::Diagnostic d = finding("SP0508", "key-holds-other-tensors", "checkpoint key " + quoted(entry.key) + " holds other tensors than the state that is loaded from it", entry.span,
                               more.empty() ? "without " + list(fewer) : list(more) + " too", "in the checkpoint: " + list(there->second), "use keys that do not depend on how tensors are grouped, or group them as the saved plan does");
    d.subject.value = entry.state;
    violations_.add(std::move(d), {});
    other_tensors_.insert(entry.key);
  }

  void load(const Holding& holding) {
    const std::string& tensor = resumed_.reference.program.value(holding.reference).name;
    const auto problem = [&](std::string message, std::string expected, std::string found, std::string fix, const std::string& kind) {
      ir::Diagnostic d = finding("SP0507", "not-in-checkpoint", std::move(message), holding.state->span, std::move(expected), std::move(found), std::move(fix));
      d.subject.value = holding.state->name;
      d.subject.reference = tensor;
      violations_.add(std::move(d), kind);
    };
    if (unlike_.contains(tensor)) return;
    const std::string state = quoted(holding.state->name);
    if (is_partial(holding)) return problem(state + " is to hold summands of " + quoted(tensor) + ", and the checkpoint has the sum", "a state that is not partial", "partial", "load the whole tensor, and let the step split it", "partial");
    const auto keys = in_checkpoint_.of_tensor.find(tensor);
    if (keys == in_checkpoint_.of_tensor.end())
      return problem(state + " finds no " + quoted(tensor) + " in the checkpoint", "a reference state of that name in the saved plan", "none", "save it, or start it anew in a plan of its own", "tensor");
    const auto entry = entry_of_.find(holding.state->name);
    ir::DType dtype = keys->second.begin()->second;
    if (entry == entry_of_.end()) {  // from where it is widest
      for (const auto& [name, t] : keys->second)
        if (ir::byte_size(t) > ir::byte_size(dtype)) dtype = t;
    } else {
      const std::string& key = entry->second->key;
      if (other_tensors_.contains(key)) return;
      const auto at = keys->second.find(key);
      if (at == keys->second.end())
        return problem(state + " is loaded from key " + quoted(key) + ", and the checkpoint has " + quoted(tensor) + " under " + quoted(keys->second.begin()->first), "key " + quoted(key), quoted(keys->second.begin()->first), "use the key of the checkpoint", "key");
      dtype = at->second;
    }
    if (ir::byte_size(dtype) >= ir::byte_size(holding.dtype)) return;
    ir::Diagnostic d = finding("SP0605", "narrower-checkpoint", state + " is held in " + std::string(ir::dtype_name(holding.dtype)) + " and loaded from " + std::string(ir::dtype_name(dtype)), holding.state->span, std::string(ir::dtype_name(holding.dtype)),
                               std::string(ir::dtype_name(dtype)), "save the wider copy");
    d.severity = ir::Severity::warning;
    d.subject.value = holding.state->name;
    d.subject.reference = tensor;
    warnings_.add(std::move(d), {});
  }

  const ir::Document& saved_;
  const ir::Document& resumed_;
  const ir::ReferenceIndex index_;
  const std::vector<Holding> holdings_;
  Findings findings_;
  Grouped violations_, warnings_;
  Saved in_checkpoint_, in_resumed_;
  std::map<std::string, const ir::CheckpointEntry*> entry_of_;  // by state of the resumed plan
  std::set<std::string> unlike_;                                // tensors of another type, told
  std::set<std::string> other_tensors_;                         // keys, told
};

}  // namespace

Findings check_reshard(const ir::Document& saved, const ir::Document& resumed) { return Reshard(saved, resumed).run(); }

}  // namespace shardproof::verifier::structure
