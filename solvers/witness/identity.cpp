#include "solvers/witness/identity.h"

#include <algorithm>
#include <functional>
#include <map>

#include "solvers/witness/align.h"
#include "solvers/witness/smt_text.h"

namespace shardproof::solvers::witness {

namespace {

constexpr std::size_t kMaxPairs = 1200;   // looked at in one comparison
constexpr std::size_t kMaxClaims = 6000;

class Matcher {
 public:
  explicit Matcher(Algebra& algebra) : algebra_(algebra), text_(algebra), aligner_(algebra) {}

  void equal(const Form& left, const Form& right, const Context& context);
  Reduced result() {
    Reduced r;
    r.scripts = text_.scripts(claims_);
    r.claims = std::move(claims_);
    return r;
  }

 private:
  struct Pair {
    std::size_t left, right;
    Alignment alignment;
  };

  void claim(std::string text) {
    if (text == "true") return;
    claims_.push_back(std::move(text));
    if (claims_.size() > kMaxClaims) throw NotCovered("too many claims");
  }
  void never(const Summand& s, const Context& context);
  void correspond(const std::vector<Summand>& left, const std::vector<Summand>& right, const Context& context);
  void one_to_one(const Summand& from, const std::vector<const Pair*>& pairs, const std::vector<Summand>& others, bool forth, const Context& context);
  void equal_places(const Pair& pair, const Summand& left, const Summand& right, const Context& context);
  void equal_factors(const Factor& left, const Factor& right, const Context& context);
  void equal_maxima(const Factor& left, const Factor& right, const Context& context);

  Algebra& algebra_;
  SmtText text_;
  Aligner aligner_;
  std::vector<std::string> claims_;
};

// Summands that are on both sides, letter by letter, fall out.
void cancel(Form& left, Form& right) {
  std::map<std::string, std::vector<std::size_t>> at;
  for (std::size_t i = 0; i < left.size(); ++i) at[ir::to_string(left[i].coefficient) + key_of(left[i])].push_back(i);
  std::vector<bool> gone(left.size());
  std::erase_if(right, [&](const Summand& s) {
    const auto it = at.find(ir::to_string(s.coefficient) + key_of(s));
    if (it == at.end() || it->second.empty()) return false;
    gone[it->second.back()] = true;
    it->second.pop_back();
    return true;
  });
  Form rest;
  for (std::size_t i = 0; i < left.size(); ++i)
    if (!gone[i]) rest.push_back(std::move(left[i]));
  left = std::move(rest);
}

void Matcher::equal(const Form& left, const Form& right, const Context& context) {
  Form l = algebra_.simplified(left), r = algebra_.simplified(right);
  cancel(l, r);
  std::map<std::string, std::pair<std::vector<Summand>, std::vector<Summand>>> groups;
  for (Summand& s : l) groups[ir::to_string(s.coefficient) + head_of(s)].first.push_back(std::move(s));
  for (Summand& s : r) groups[ir::to_string(s.coefficient) + head_of(s)].second.push_back(std::move(s));
  for (const auto& [key, sides] : groups) correspond(sides.first, sides.second, context);
}

// No place of the summand has all guards.
void Matcher::never(const Summand& s, const Context& context) {
  if (s.guards.empty()) throw NotCovered("a summand that only one side has");
  claim(text_.under(context, [&] { return "(not " + text_.all(s.guards) + ")"; }));
}

void Matcher::correspond(const std::vector<Summand>& left, const std::vector<Summand>& right, const Context& context) {
  if (left.size() * right.size() > kMaxPairs) throw NotCovered("more than " + std::to_string(kMaxPairs) + " pairs of like summands");
  std::vector<Pair> pairs;
  for (std::size_t i = 0; i < left.size(); ++i)
    for (std::size_t j = 0; j < right.size(); ++j)
      if (auto alignment = aligner_.align(left[i], right[j], context)) pairs.push_back({i, j, std::move(*alignment)});
  // Where a pair was seen to correspond somewhere, those that were not are not considered for its places.
  std::vector<bool> left_seen(left.size()), right_seen(right.size());
  for (const Pair& p : pairs)
    if (p.alignment.seen) left_seen[p.left] = right_seen[p.right] = true;
  std::erase_if(pairs, [&](const Pair& p) { return !p.alignment.seen && left_seen[p.left] && right_seen[p.right]; });
  const auto direction = [&](const std::vector<Summand>& from, const std::vector<Summand>& to, bool forth) {
    for (std::size_t i = 0; i < from.size(); ++i) {
      std::vector<const Pair*> own;
      for (const Pair& p : pairs)
        if ((forth ? p.left : p.right) == i) own.push_back(&p);
      if (own.empty()) never(from[i], context);
      else one_to_one(from[i], own, to, forth, context);
    }
  };
  direction(left, right, true);
  direction(right, left, false);
  for (const Pair& p : pairs) equal_places(p, left[p.left], right[p.right], context);
}

// Each place of `from` is mapped to exactly one place, which is mapped back to it.
void Matcher::one_to_one(const Summand& from, const std::vector<const Pair*>& pairs, const std::vector<Summand>& others, bool forth, const Context& context) {
  Context inner = context;
  inner.push_back({{}, from.guards});
  claim(text_.under(inner, [&] {
    std::vector<std::string> targets;
    for (const Pair* p : pairs) {
      const Summand& to = others[forth ? p->right : p->left];
      const Renaming& there = forth ? p->alignment.forth : p->alignment.back;
      targets.push_back(text_.let(there, SmtText::conjunction({text_.inside(to.bound), text_.all(to.guards)})));
    }
    return SmtText::exactly_one(targets);
  }));
  for (const Pair* p : pairs) {
    const Summand& to = others[forth ? p->right : p->left];
    const Renaming& there = forth ? p->alignment.forth : p->alignment.back;
    const Renaming& home = forth ? p->alignment.back : p->alignment.forth;
    Context at = inner;
    at.push_back({there, to.guards});
    for (const auto& [v, value] : home) claim(text_.under(at, [&] { return text_.equal(algebra_.variable(v), value); }));
  }
}

void Matcher::equal_places(const Pair& pair, const Summand& left, const Summand& right, const Context& context) {
  Context at = context;
  at.push_back({{}, left.guards});
  at.push_back({pair.alignment.forth, right.guards});
  for (std::size_t k = 0; k < left.factors.size(); ++k) equal_factors(left.factors[k], right.factors[pair.alignment.order[k]], at);
}

void Matcher::equal_factors(const Factor& left, const Factor& right, const Context& context) {
  if (left.key == right.key) return;
  switch (left.kind) {
    case Factor::Kind::access:
      for (std::size_t d = 0; d < left.indices.size(); ++d) claim(text_.under(context, [&] { return text_.equal(left.indices[d], right.indices[d]); }));
      return;
    case Factor::Kind::integer:
      claim(text_.under(context, [&] { return text_.equal({0, {{left.atom, 1}}}, {0, {{right.atom, 1}}}); }));
      return;
    case Factor::Kind::apply:
      if (left.function != right.function || left.arguments.size() != right.arguments.size()) throw NotCovered("different functions");
      for (std::size_t a = 0; a < left.arguments.size(); ++a) equal(left.arguments[a], right.arguments[a], context);
      return;
    case Factor::Kind::maximum: return equal_maxima(left, right, context);
  }
}

void Matcher::equal_maxima(const Factor& left, const Factor& right, const Context& context) {
  struct BranchPair {
    std::size_t left, right;
    Alignment alignment;
  };
  std::vector<BranchPair> pairs;
  for (std::size_t i = 0; i < left.branches.size(); ++i)
    for (std::size_t j = 0; j < right.branches.size(); ++j)
      if (auto alignment = aligner_.align(left.branches[i], right.branches[j], context)) pairs.push_back({i, j, std::move(*alignment)});
  const auto direction = [&](const std::vector<Branch>& from, const std::vector<Branch>& to, bool forth) {
    for (std::size_t i = 0; i < from.size(); ++i) {
      Context inner = context;
      inner.push_back({{}, from[i].guards});
      bool some = false;
      claim(text_.under(inner, [&] {
        std::string any;
        for (const BranchPair& p : pairs) {
          if ((forth ? p.left : p.right) != i) continue;
          some = true;
          const Branch& target = to[forth ? p.right : p.left];
          any += " " + text_.let(forth ? p.alignment.forth : p.alignment.back, SmtText::conjunction({text_.inside(target.bound), text_.all(target.guards)}));
        }
        return "(or false" + any + ")";
      }));
      if (!some) throw NotCovered("a maximum over values that only one side has");
    }
  };
  direction(left.branches, right.branches, true);
  direction(right.branches, left.branches, false);
  for (const BranchPair& p : pairs) {
    const Branch& l = left.branches[p.left];
    const Branch& r = right.branches[p.right];
    Context at = context;
    at.push_back({{}, l.guards});
    at.push_back({p.alignment.forth, r.guards});
    equal(l.body, r.body, at);
    Context back = context;
    back.push_back({{}, r.guards});
    back.push_back({p.alignment.back, l.guards});
    equal(l.body, r.body, back);
  }
}

}  // namespace

Reduced reduce_identity(Algebra& algebra, const Form& left, const Form& right) {
  Reduced failed;
  try {
    Matcher matcher(algebra);
    matcher.equal(left, right, {});
    return matcher.result();
  } catch (const NotCovered& e) {
    failed.reason = e.what();
  } catch (const std::overflow_error&) {
    failed.reason = "integers of more than 64 bits";
  }
  return failed;
}

}  // namespace shardproof::solvers::witness
