// Each unknown has a lower bound and, once it is known, a value. Everything that is derived carries the decisions it
// rests on, so that a contradiction returns to the last decision that had a part in it: there are thousands of sizes
// that follow from a few, and none of them may be tried in turn.
#include "verifier/execution/scale_solve.h"

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>

namespace shardproof::execution {

namespace {

using Reasons = std::vector<int>;  // levels of decisions, ascending

void merge(Reasons& into, const Reasons& more) {
  if (more.empty()) return;
  Reasons both;
  both.reserve(into.size() + more.size());
  std::set_union(into.begin(), into.end(), more.begin(), more.end(), std::back_inserter(both));
  into = std::move(both);
}

constexpr std::int64_t too_large = std::int64_t{1} << 21;
constexpr int most_conflicts = 2000;
constexpr std::size_t most_checks = 400'000;  // of constraints and reasons, which bounds the time
constexpr std::int64_t most_choices = 24;  // values tried above the lower bound

struct Constraint {
  enum class Kind : std::uint8_t { product, sum, order, last_shard, distinct, limit };
  Kind kind = Kind::product;
  std::vector<int> left, right;  // product and sum: left is equal to right
  std::int64_t limit = 0;
};

class Solver {
 public:
  Solver(const Sizes& sizes, const SolveRequest& request) : sizes_(sizes) {
    for (const Node root : sizes.roots()) {
      index_[root] = static_cast<int>(full_.size());
      full_.push_back(sizes.full(root));
      border_.push_back(sizes.is_border(root));
    }
    const std::size_t n = full_.size();
    value_.assign(n, 0);
    low_.assign(n, 1);
    reasons_.resize(n);
    uses_.resize(n);
    add_constraints(request);
    for (std::size_t v = 0; v < n; ++v) low_[v] = full_[v] == 1 || border_[v] ? 1 : 2;
    for (std::size_t v = 0; v < n; ++v) {
      if (full_[v] <= 3 && !border_[v]) fixed_.emplace_back(static_cast<int>(v), full_[v]);
    }
    for (const Node node : sizes.kept()) fixed_.emplace_back(of(node), sizes.full(node));
    for (const Node axis : request.axes) first_.push_back(of(axis));
  }

  std::optional<std::vector<std::int64_t>> solve() {
    queued_.assign(constraints_.size(), false);
    for (const auto& [v, value] : fixed_) {
      if (!assign(v, value, {})) return std::nullopt;
    }
    for (std::size_t c = 0; c < constraints_.size(); ++c) enqueue(static_cast<int>(c));
    if (!propagate()) return std::nullopt;
    std::vector<int> order(full_.size());
    for (std::size_t v = 0; v < order.size(); ++v) order[v] = static_cast<int>(v);
    std::vector<bool> is_first(full_.size());
    for (const int v : first_) is_first[static_cast<std::size_t>(v)] = true;
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      const auto x = static_cast<std::size_t>(a), y = static_cast<std::size_t>(b);
      if (is_first[x] != is_first[y]) return static_cast<bool>(is_first[x]);
      return full_[x] < full_[y];
    });
    if (!search(order)) return std::nullopt;
    for (const Constraint& c : constraints_) {
      if (!check(c)) return std::nullopt;  // one that was cleared from the queue
    }
    std::vector<std::int64_t> small(sizes_.count());
    for (Node node = 0; node < static_cast<Node>(small.size()); ++node) {
      small[static_cast<std::size_t>(node)] = value_[static_cast<std::size_t>(of(node))];
    }
    return small;
  }

 private:
  struct Change {
    int variable;
    std::int64_t value, low;
    Reasons reasons;
  };
  struct Decision {
    std::size_t at;          // in the order
    std::size_t trail;       // length before it
    std::int64_t tried;
    std::int64_t last;
    Reasons conflict;        // what refuted the values tried so far
  };

  int of(Node node) const { return index_.at(sizes_.find(node)); }
  std::vector<int> of(const std::vector<Node>& nodes) const {
    std::vector<int> variables;
    for (const Node node : nodes) variables.push_back(of(node));
    return variables;
  }

  void add(Constraint constraint) {
    const int at = static_cast<int>(constraints_.size());
    for (const auto* side : {&constraint.left, &constraint.right}) {
      for (const int v : *side) {
        auto& uses = uses_[static_cast<std::size_t>(v)];
        if (uses.empty() || uses.back() != at) uses.push_back(at);
      }
    }
    constraints_.push_back(std::move(constraint));
  }

  void add_constraints(const SolveRequest& request) {
    using Kind = Constraint::Kind;
    std::set<std::pair<std::vector<int>, std::vector<int>>> products;
    for (const SizeProduct& product : sizes_.products()) {
      Constraint c{Kind::product, of(product.left), of(product.right), 0};
      std::sort(c.left.begin(), c.left.end());
      std::sort(c.right.begin(), c.right.end());
      if (c.left != c.right && products.emplace(c.left, c.right).second) add(std::move(c));
    }
    for (const SizeSum& sum : sizes_.sums()) add({Kind::sum, {of(sum.total)}, of(sum.parts), 0});
    std::set<std::pair<int, int>> orders;
    for (const auto& [less, greater] : sizes_.orders()) {
      if (orders.emplace(of(less), of(greater)).second) add({Kind::order, {of(less)}, {of(greater)}, 0});
    }
    if (request.ordered_pieces) {
      for (const auto& [less, greater] : sizes_.border_orders()) add({Kind::order, {of(less)}, {of(greater)}, 0});
    }
    for (const LastShard& each : sizes_.last_shards()) {
      add({Kind::last_shard, {of(each.real)}, {of(each.padded), of(each.shard)}, 0});
    }
    std::set<int> distinct;
    for (const Node node : request.distinct) distinct.insert(of(node));
    for (auto a = distinct.begin(); a != distinct.end(); ++a) {
      for (auto b = std::next(a); b != distinct.end(); ++b) add({Kind::distinct, {*a}, {*b}, 0});
    }
    std::vector<int> listed;
    for (const Node axis : request.axes) listed.push_back(of(axis));
    if (!listed.empty()) add({Kind::limit, std::move(listed), {}, request.max_ranks});
  }

  std::int64_t value(int v) const { return value_[static_cast<std::size_t>(v)]; }
  std::int64_t low(int v) const { return value(v) != 0 ? value(v) : low_[static_cast<std::size_t>(v)]; }

  void touch(int v) {
    trail_.push_back({v, value(v), low_[static_cast<std::size_t>(v)], reasons_[static_cast<std::size_t>(v)]});
    for (const int use : uses_[static_cast<std::size_t>(v)]) enqueue(use);
  }

  bool assign(int v, std::int64_t to, const Reasons& reasons) {
    const auto at = static_cast<std::size_t>(v);
    if (value(v) == to) return true;
    if (value(v) != 0 || to < low_[at] || to > too_large) {
      conflict_ = reasons;
      merge(conflict_, reasons_[at]);
      return false;
    }
    touch(v);
    value_[at] = to;
    merge(reasons_[at], reasons);
    return true;
  }

  bool raise(int v, std::int64_t to, const Reasons& reasons) {
    const auto at = static_cast<std::size_t>(v);
    if (low(v) >= to) return true;
    if (value(v) != 0 || to > too_large) {
      conflict_ = reasons;
      merge(conflict_, reasons_[at]);
      return false;
    }
    touch(v);
    low_[at] = to;
    merge(reasons_[at], reasons);
    return true;
  }

  Reasons because(const Constraint& c, int but = -1) const {
    Reasons all;
    for (const auto* side : {&c.left, &c.right}) {
      for (const int v : *side) {
        if (v != but) merge(all, reasons_[static_cast<std::size_t>(v)]);
      }
    }
    checks_ += all.size() / 4;
    return all;
  }

  bool fail(const Constraint& c) {
    conflict_ = because(c);
    return false;
  }

  void enqueue(int c) {
    if (queued_[static_cast<std::size_t>(c)]) return;
    queued_[static_cast<std::size_t>(c)] = true;
    pending_.push_back(c);
  }

  void clear_queue() {
    for (const int c : pending_) queued_[static_cast<std::size_t>(c)] = false;
    pending_.clear();
  }

  bool propagate() {
    std::size_t patience = 5000 + 20 * constraints_.size();
    while (!pending_.empty()) {
      // Where sizes contradict, bounds may raise each other for long: then any decision may be the cause. Before the
      // first decision bounds are only a help.
      if (++checks_ > most_checks || --patience == 0) {
        clear_queue();
        conflict_.resize(static_cast<std::size_t>(level_));
        std::iota(conflict_.begin(), conflict_.end(), 1);
        return level_ == 0;
      }
      const int c = pending_.front();
      pending_.pop_front();
      queued_[static_cast<std::size_t>(c)] = false;
      if (!check(constraints_[static_cast<std::size_t>(c)])) {
        clear_queue();
        return false;
      }
    }
    return true;
  }

  bool check(const Constraint& c) {
    switch (c.kind) {
      case Constraint::Kind::product: return check_product(c);
      case Constraint::Kind::sum: return check_sum(c);
      case Constraint::Kind::order: {
        const int less = c.left[0], greater = c.right[0];
        if (!raise(greater, low(less) + 1, because(c, greater))) return false;
        return value(greater) == 0 || low(less) < value(greater) || fail(c);
      }
      case Constraint::Kind::last_shard: {
        const int real = c.left[0], padded = c.right[0], shard = c.right[1];
        if (value(padded) == 0 || value(shard) == 0) return true;
        return raise(real, value(padded) - value(shard) + 1, because(c, real));
      }
      case Constraint::Kind::distinct:
        return value(c.left[0]) == 0 || value(c.left[0]) != value(c.right[0]) || fail(c);
      case Constraint::Kind::limit: {
        std::int64_t least = 1;
        for (const int v : c.left) least *= low(v);
        return least <= c.limit || fail(c);
      }
    }
    return true;
  }

  // Side by side: what is known, the least that it can be, and the unknown if there is one (with its power).
  struct Side {
    std::int64_t known = 1, least = 1;
    int unknown = -1, power = 0;
    bool several = false;
  };
  Side side(const std::vector<int>& variables) const {
    Side s;
    for (const int v : variables) {
      if (__builtin_mul_overflow(s.least, low(v), &s.least)) s.least = too_large * 2;
      if (value(v) != 0) {
        if (__builtin_mul_overflow(s.known, value(v), &s.known)) s.known = too_large * 2;
      } else if (s.unknown == -1 || s.unknown == v) {
        s.unknown = v;
        ++s.power;
      } else {
        s.several = true;
      }
    }
    return s;
  }

  bool check_product(const Constraint& c) {
    const Side a = side(c.left), b = side(c.right);
    for (const auto& [one, other] : {std::pair(a, b), std::pair(b, a)}) {
      if (one.unknown != -1) continue;
      // `one` is known: the other side divides it.
      if (other.least > one.known || one.known % other.known != 0) return fail(c);
      if (other.unknown == -1) return one.known == other.known || fail(c);
      if (other.several) continue;
      const std::int64_t rest = one.known / other.known;
      std::int64_t root = 1;
      const auto power = [&](std::int64_t base) {
        std::int64_t p = 1;
        for (int i = 0; i < other.power && p <= rest; ++i) p *= base;
        return p;
      };
      if (other.power == 1) root = rest;
      while (power(root) < rest) ++root;
      if (power(root) != rest) return fail(c);
      return assign(other.unknown, root, because(c, other.unknown));
    }
    for (const auto& [one, other] : {std::pair(a, b), std::pair(b, a)}) {
      if (one.several || one.power != 1) continue;
      if (!raise(one.unknown, (other.least + one.known - 1) / one.known, because(c, one.unknown))) return false;
    }
    return true;
  }

  bool check_sum(const Constraint& c) {
    const int total = c.left[0];
    std::int64_t known = 0, least = 0;
    int unknown = -1, count = 0;
    bool several = false;
    for (const int v : c.right) {
      least += low(v);
      if (value(v) != 0) {
        known += value(v);
      } else if (unknown == -1 || unknown == v) {
        unknown = v;
        ++count;
      } else {
        several = true;
      }
    }
    if (unknown == -1) return assign(total, known, because(c, total));
    if (value(total) == 0) {
      if (!raise(total, least, because(c, total))) return false;
      return several || raise(unknown, (low(total) - known + count - 1) / count, because(c, unknown));
    }
    if (least > value(total)) return fail(c);
    if (several) return true;
    if ((value(total) - known) % count != 0) return fail(c);
    return assign(unknown, (value(total) - known) / count, because(c, unknown));
  }

  void undo(std::size_t length) {
    while (trail_.size() > length) {
      Change& change = trail_.back();
      const auto at = static_cast<std::size_t>(change.variable);
      value_[at] = change.value;
      low_[at] = change.low;
      reasons_[at] = std::move(change.reasons);
      trail_.pop_back();
    }
  }

  // Smallest first; after a contradiction back to the last decision that it rests on.
  bool search(const std::vector<int>& order) {
    std::vector<Decision> decisions;
    std::size_t at = 0;
    int conflicts = 0;
    while (true) {
      while (at < order.size() && value(order[at]) != 0) ++at;
      if (at == order.size()) return true;
      const std::int64_t lowest = low(order[at]);
      decisions.push_back({at, trail_.size(), lowest - 1, lowest + most_choices, reasons_[static_cast<std::size_t>(order[at])]});
      while (true) {
        Decision& decision = decisions.back();
        const int level = static_cast<int>(decisions.size());
        if (++decision.tried <= decision.last) {
          level_ = level;
          if (assign(order[decision.at], decision.tried, {level}) && propagate()) {
            at = decision.at + 1;
            break;
          }
          if (++conflicts > most_conflicts || checks_ > most_checks) return false;
          undo(decision.trail);
          if (std::binary_search(conflict_.begin(), conflict_.end(), level)) {
            std::erase(conflict_, level);
            merge(decision.conflict, conflict_);
            continue;
          }
        } else {
          conflict_ = decision.conflict;
        }
        // This decision has no part in it, or no value left.
        if (conflict_.empty()) return false;
        const int back = conflict_.back();
        decisions.resize(static_cast<std::size_t>(back), decisions.back());
        undo(decisions.back().trail);
        std::erase(conflict_, back);
        merge(decisions.back().conflict, conflict_);
      }
    }
  }

  const Sizes& sizes_;
  std::map<Node, int> index_;
  std::vector<std::int64_t> full_, value_, low_;
  std::vector<bool> border_;
  std::vector<Reasons> reasons_;
  std::vector<std::vector<int>> uses_;
  std::vector<Constraint> constraints_;
  std::vector<std::pair<int, std::int64_t>> fixed_;
  std::vector<int> first_;
  std::deque<int> pending_;
  std::vector<bool> queued_;
  std::vector<Change> trail_;
  Reasons conflict_;
  mutable std::size_t checks_ = 0;
  int level_ = 0;  // of the latest decision
};

}  // namespace

std::optional<std::vector<std::int64_t>> solve(const Sizes& sizes, const SolveRequest& request) {
  return Solver(sizes, request).solve();
}

}  // namespace shardproof::execution
