// Gradient norm, clipping, AdamW and the versions of state.
#include "lowering/unfold.h"
#include "mutations/mutate.h"

namespace shardproof::mutations {
namespace {

using ir::OpCode;
using ir::Rational;
using ir::ValueId;

Edit operand(std::size_t k) {
  return [k](Editor& e, const std::string& at) { e.become_operand(at, k); };
}
Edit scaled(Rational factor) {
  return [factor](Editor& e, const std::string& at) { e.scale(at, factor); };
}
Edit another_constant(std::size_t k, Rational value) {
  return [k, value](Editor& e, const std::string& at) {
    const ValueId old = e.at(at).inputs.at(k);
    e.before(at);
    e.use(at, k, e.constant(value, e.type(old)));
  };
}
// "bucket1.grad" with "bucket1" taken from the site's name.
std::string in_bucket(const std::string& at, const std::string& last) {
  return at.substr(0, at.find('.') + 1) + last;
}

void without_operand(Editor& e, const std::string& at, std::size_t k) {
  std::vector<ValueId> in = e.at(at).inputs;
  if (in.size() < 2 || k >= in.size()) throw NotApplicable();
  in.erase(in.begin() + static_cast<std::ptrdiff_t>(k));
  e.redefine(at, e.at(at).op, in);
}
void first_twice(Editor& e, const std::string& at) {
  std::vector<ValueId> in = e.at(at).inputs;
  in.push_back(in.at(0));
  e.redefine(at, OpCode::add, in);
}

bool is_adamw(const Subject&, const Subject::Entry& e) {
  return e.instruction->op == OpCode::adamw;
}
Kind at_adamw(std::string kind, Edit edit) {
  return at_instructions(std::move(kind), is_adamw, [edit = std::move(edit)](Editor& e, const std::string& at) {
    edit(e, at);
    for (const ValueId id : e.at(at).outputs) e.touch(e.name(id));
  });
}

void betas_exchanged(Editor& e, const std::string& at) {
  const ir::AttrValue beta1 = *e.at(at).attributes.find("beta1");
  e.set(at, "beta1", *e.at(at).attributes.find("beta2"));
  e.set(at, "beta2", beta1);
}
Edit attribute(std::string name, Rational value) {
  return [name = std::move(name), value](Editor& e, const std::string& at) {
    if (e.at(at).attributes.get<Rational>(name) == value) throw NotApplicable();
    e.set(at, name, value);
  };
}
Edit inputs_exchanged(std::size_t a, std::size_t b) {
  return [a, b](Editor& e, const std::string& at) {
    ir::Instruction& i = e.at(at);
    std::swap(i.inputs.at(a), i.inputs.at(b));
    e.touch(at);
  };
}
void step_before(Editor& e, const std::string& at) {
  e.use(at, 4, e.value("step"));
}
void gradient_not_clipped(Editor& e, const std::string& at) {
  const ir::Instruction clipped = e.at(e.name(e.at(at).inputs.at(1)));
  if (clipped.op != OpCode::mul) throw NotApplicable();
  e.use(at, 1, clipped.inputs[0]);
}
void learning_rate_doubled(Editor& e, const std::string& at) {
  const ValueId lr = e.at(at).inputs.at(5);
  e.before(at);
  e.use(at, 5, e.emit(OpCode::add, {lr, lr}));
}

// AdamW written out, so that its inside can be changed.
void inside(Editor& e, const std::string& at, const std::string& part, const Edit& edit) {
  const std::string first = e.name(e.at(at).outputs.at(0));
  ir::Program unfolded = lowering::unfold(e.program());
  e.program() = std::move(unfolded);
  edit(e, first + "/" + part);
}
Edit bias_correction_missing(std::string part) {
  return [part = std::move(part)](Editor& e, const std::string& at) { inside(e, at, part, operand(0)); };
}

// ---- state

using StateEdit = std::function<bool(const Subject&, const ir::PlanState&)>;
Kind at_states(std::string kind, StateEdit accept, std::function<void(Editor&, ir::PlanState&)> edit) {
  return {std::move(kind), [accept, edit](const Subject& subject) {
            std::vector<Site> sites;
            const std::vector<ir::PlanState>& state = subject.document.plan.stages.front().state;
            for (std::size_t k = 0; k < state.size(); ++k) {
              if (!accept(subject, state[k])) continue;
              sites.push_back({state[k].name, [edit, k](Editor& e, const std::string& at) {
                                 e.touch(e.name(e.stage().state[k].next));
                                 edit(e, e.stage().state[k]);
                                 e.touch(at);
                                 e.touch(e.name(e.stage().state[k].next));
                               }});
            }
            return sites;
          }};
}
bool is_moment(const Subject&, const ir::PlanState& s) {
  return s.name.ends_with(".exp_avg") || s.name.ends_with(".exp_avg_sq");
}
bool is_first_moment(const Subject&, const ir::PlanState& s) {
  return s.name.ends_with(".exp_avg");
}
bool is_main(const Subject&, const ir::PlanState& s) {
  return s.name.ends_with(".param");
}
bool is_weight(const Subject&, const ir::PlanState& s) {
  return s.name.ends_with(".weight") || s.name.ends_with(".bias");
}
bool is_step(const Subject&, const ir::PlanState& s) {
  return s.name == "step";
}
void unchanged(Editor&, ir::PlanState& s) {
  s.next = s.value;
}
void moments_exchanged(Editor& e, ir::PlanState& s) {
  const std::string other = s.name + "_sq";
  for (ir::PlanState& t : e.stage().state) {
    if (t.name != other) continue;
    std::swap(s.next, t.next);
    e.touch(t.name);
    return;
  }
  throw NotApplicable();
}
void next_of_another(Editor& e, ir::PlanState& s) {
  for (const ir::PlanState& t : e.stage().state) {
    if (t.next == s.next || t.name == s.name || e.type(t.next) != e.type(s.next)) continue;
    s.next = t.next;
    return;
  }
  throw NotApplicable();
}

// ---- weights

// The weights that go out are cast from the main weights before the update.
void stale_weights(Editor& e, const std::string& at) {
  const ir::Instruction cast = e.at(at);
  if (cast.op != OpCode::cast) throw NotApplicable();
  const std::string bucket = at.substr(0, at.find(".weights_own"));
  const std::string stem = at.ends_with(".weights_own") ? bucket + ".param" : at.substr(0, at.size() - 5) + ".main.param";
  e.use(at, 0, e.value(stem));
}

void clip_on_each_rank(Editor& e, const std::string& at) {
  // Only the clip factor uses the own norm; the metric stays right.
  const ir::Instruction reduced = e.at("grad_norm.square_sum");
  const ir::Instruction norm_eps = e.at(at);
  e.before(at);
  const ValueId own = e.emit(OpCode::sqrt, {reduced.inputs[0]});
  if (norm_eps.inputs.at(0) != e.value("grad_norm.norm")) throw NotApplicable();
  e.use(at, 0, own);
}

void norm_of_undivided(Editor& e, const std::string& at) {
  const ValueId raw = e.value(in_bucket(at, "grad_sum"));
  e.use(at, 0, raw);
  e.use(at, 1, raw);
}
void norm_counts_all(Editor& e, const std::string& at) {
  const std::vector<ValueId> in = e.at(at).inputs;
  if (in.size() != 3) throw NotApplicable();
  e.redefine(at, OpCode::einsum, {in[0], in[1]}, {{"spec", std::string("i,i->")}});
}
void clip_of_parameter(Editor& e, const std::string& at) {
  e.become_operand(at, 0);
}

void subtracted_twice(Editor& e, const std::string& at) {
  const ValueId change = e.at(at).inputs.at(1);
  const ValueId once = e.displace(at);
  e.define(at, OpCode::sub, {once, change});
}

}  // namespace

Kinds optimizer_kinds() {
  return {
      at_names("norm_counts_replicas", "bucket*.square_sum", norm_counts_all),
      at_names("norm_counts_all_but_first", "bucket*.is_first",
               [](Editor& e, const std::string& at) {
                 if (e.has_axis("tp") && e.axis_size("tp") == 2) throw NotApplicable();  // the other of two copies counts
                 e.set(at, "direction", std::string("ne"));
               }),
      at_names("norm_counted_twice", "grad_norm.own_square_sum", first_twice),
      at_names("norm_of_one_bucket", "grad_norm.own_square_sum",
               [](Editor& e, const std::string& at) { without_operand(e, at, 1); }),
      at_names("norm_before_scaling", "bucket*.square_sum", norm_of_undivided),
      at_names("norm_without_root", "grad_norm.norm", operand(0)),
      at_names("clip_on_each_rank", "grad_norm.norm_eps", clip_on_each_rank),
      at_names("clip_eps", "grad_norm.norm_eps", another_constant(1, Rational(1, 1000))),
      at_names("clip_eps_missing", "grad_norm.norm_eps", operand(0)),
      at_names("clip_bound", "grad_norm.clip_ratio", another_constant(0, 2)),
      at_names("clip_always", "grad_norm.clip", operand(1)),
      at_names("clip_never", "grad_norm.clip", operand(0)),
      at_names("clip_max_for_min", "grad_norm.clip",
               [](Editor& e, const std::string& at) { e.redefine(at, OpCode::max, e.at(at).inputs); }),
      at_names("clip_inverted", "grad_norm.clip_ratio",
               [](Editor& e, const std::string& at) {
                 const std::vector<ValueId> in = e.at(at).inputs;
                 e.redefine(at, OpCode::div, {in.at(1), in.at(0)});
               }),
      at_names("clip_missing_for_bucket", "bucket*.grad_clipped", clip_of_parameter),
      at_names("clip_twice", "bucket*.grad_clipped",
               [](Editor& e, const std::string& at) {
                 const std::vector<ValueId> in = e.at(at).inputs;
                 e.redefine(at, OpCode::mul, {in.at(0), in.at(1), in.at(1)});
               }),
      at_adamw("adam_betas_exchanged", betas_exchanged),
      at_adamw("adam_eps", attribute("eps", Rational(1, 1000000))),
      at_adamw("adam_beta1", attribute("beta1", Rational(99, 100))),
      at_adamw("adam_decay_wrong_group", [](Editor& e, const std::string& at) {
                 const bool decays = !e.at(at).attributes.get<Rational>("weight_decay").is_zero();
                 e.set(at, "weight_decay", decays ? Rational(0) : Rational(1, 10));
               }),
      at_adamw("adam_moments_exchanged", inputs_exchanged(2, 3)),
      at_adamw("adam_gradient_for_parameter", inputs_exchanged(0, 1)),
      at_adamw("adam_step_before", step_before),
      at_adamw("adam_gradient_not_clipped", gradient_not_clipped),
      at_adamw("adam_learning_rate_doubled", learning_rate_doubled),
      at_adamw("adam_bias_correction_missing", bias_correction_missing("corrected_exp_avg")),
      at_adamw("adam_second_bias_correction_missing", bias_correction_missing("corrected_exp_avg_sq")),
      at_names("decay_missing", "bucket*.next_decayed", operand(0)),
      at_names("decay_twice", "bucket*.next_decayed", subtracted_twice),
      at_names("decay_sign", "bucket*.next_decayed",
               [](Editor& e, const std::string& at) { e.redefine(at, OpCode::add, e.at(at).inputs); }),
      at_names("decay_without_learning_rate", "bucket*.decay_change",
               [](Editor& e, const std::string& at) { without_operand(e, at, 2); }),
      at_names("decay_of_updated", "bucket*.decay_change",
               [](Editor& e, const std::string& at) { e.use(at, 0, e.value(in_bucket(at, "next"))); }),
      at_names("decay_of_everything", "bucket*.decay_change", another_constant(1, Rational(1, 10))),
      at_names("step_not_advanced", "optimizer.next_step", operand(0)),
      at_names("step_advanced_twice", "optimizer.next_step", another_constant(1, 2)),
      at_states("step_not_written", is_step, unchanged),
      at_states("moment_not_written", is_moment, unchanged),
      at_states("main_weight_not_written", is_main, unchanged),
      at_states("weight_not_written", is_weight, unchanged),
      at_states("moments_written_exchanged", is_first_moment, moments_exchanged),
      at_states("weight_of_another", is_weight, next_of_another),
      at_names("stale_weights_gathered", "bucket*.weights_own", stale_weights),
      at_names("stale_weights_cast", "*.weight.next", stale_weights),
      at_names("weights_before_decay", "bucket*.weights_own",
               [](Editor& e, const std::string& at) { e.use(at, 0, e.value(in_bucket(at, "next"))); }),
      at_names("gradient_of_unreduced_bucket", "bucket*.grad_sum", scaled(Rational(1, 2))),
  };
}

}  // namespace shardproof::mutations
