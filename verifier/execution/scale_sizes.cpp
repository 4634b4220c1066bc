#include "verifier/execution/scale_sizes.h"

#include <algorithm>

namespace shardproof::execution {

Node Sizes::fresh(std::int64_t full) {
  if (full == 1 && !full_.empty()) return 0;
  full_.push_back(full);
  parent_.push_back(static_cast<Node>(parent_.size()));
  extents_.insert(full);
  return parent_.back();
}

Node Sizes::number(std::int64_t full) {
  const auto known = numbers_.find(full);
  if (known != numbers_.end()) return known->second;
  const bool is_extent = extents_.contains(full);
  const Node node = fresh(full);
  if (!is_extent) extents_.erase(full);
  numbers_[full] = node;
  return node;
}

Node Sizes::known_number(std::int64_t full) const {
  const auto known = numbers_.find(full);
  return known == numbers_.end() ? no_node : known->second;
}

Node Sizes::find(Node node) const {
  Node root = node;
  while (parent_[static_cast<std::size_t>(root)] != root) root = parent_[static_cast<std::size_t>(root)];
  while (parent_[static_cast<std::size_t>(node)] != root) {
    const Node next = parent_[static_cast<std::size_t>(node)];
    parent_[static_cast<std::size_t>(node)] = root;
    node = next;
  }
  return root;
}

bool Sizes::unite(Node a, Node b) {
  a = find(a);
  b = find(b);
  if (a == b) return true;
  if (full(a) != full(b)) return false;
  parent_[static_cast<std::size_t>(std::max(a, b))] = std::min(a, b);  // the oldest: results do not depend on the order
  return true;
}

void Sizes::product(std::vector<Node> left, std::vector<Node> right) {
  products_.push_back({std::move(left), std::move(right)});
}

void Sizes::sum(Node total, std::vector<Node> parts) { sums_.push_back({total, std::move(parts)}); }

void Sizes::order(Node less, Node greater) { orders_.emplace_back(less, greater); }

void Sizes::piece(Node whole, std::int64_t begin, Node part) {
  const std::int64_t end = begin + full(part);
  if (begin < 0 || end > full(whole)) return;  // a faulty plan: validation says so
  if (begin == 0 && end == full(whole)) {
    unite(whole, part);
    return;
  }
  const auto [at, fresh_piece] = pieces_.try_emplace({find(whole), begin, end}, part);
  if (!fresh_piece) unite(at->second, part);
}

// Equal products of equal factors in equal order are equal, and so are their places: the shards of a buffer, and the
// slice that a rank takes of a vector that is computed whole.
bool Sizes::unite_products() {
  bool changed = false;
  std::map<std::vector<Node>, Node> known;
  for (SizeProduct& product : products_) {
    for (std::vector<Node>* side : {&product.left, &product.right}) {
      for (Node& node : *side) node = find(node);
      std::erase_if(*side, [&](Node node) { return full(node) == 1; });
    }
    if (product.left.size() == 1 && product.right.size() == 1 && product.left != product.right) {
      changed = unite(product.left[0], product.right[0]) || changed;
    }
    if (product.left.size() != 1 || product.right.size() < 2) continue;
    const auto [at, is_new] = known.try_emplace(product.right, product.left[0]);
    if (!is_new && find(at->second) != find(product.left[0])) changed = unite(at->second, product.left[0]) || changed;
    // And what completes one product completes the other.
    for (std::size_t hole = 0; hole < product.right.size(); ++hole) {
      std::vector<Node> key = product.right;
      const Node factor = std::exchange(key[hole], no_node);
      key.push_back(product.left[0]);
      const auto [other, fresh_key] = known.try_emplace(std::move(key), factor);
      if (!fresh_key && find(other->second) != find(factor)) changed = unite(other->second, factor) || changed;
    }
  }
  return changed;
}

bool Sizes::unite_pieces() {
  bool changed = false;
  std::map<Interval, Node> merged;
  for (const auto& [interval, part] : pieces_) {
    const auto& [whole, begin, end] = interval;
    const auto [at, is_new] = merged.try_emplace({find(whole), begin, end}, find(part));
    if (!is_new && find(at->second) != find(part)) changed = unite(at->second, part) || changed;
  }
  pieces_ = std::move(merged);
  return changed;
}

// A piece of a piece is a piece of the whole, and the whole's pieces inside one are its pieces. In a faulty plan equal
// pieces may lie one element apart, which would go on for ever.
bool Sizes::share_pieces() {
  if (pieces_.size() > most_pieces_) return false;
  std::map<Node, std::vector<std::tuple<std::int64_t, std::int64_t, Node>>> by_whole;
  for (const auto& [interval, part] : pieces_) {
    const auto& [whole, begin, end] = interval;
    by_whole[find(whole)].emplace_back(begin, end, find(part));
  }
  bool changed = false;
  const auto add = [&](Node whole, std::int64_t begin, std::int64_t end, Node part) {
    const auto [at, is_new] = pieces_.try_emplace({whole, begin, end}, part);
    if (is_new) {
      changed = true;
    } else if (find(at->second) != find(part)) {
      changed = unite(at->second, part) || changed;
    }
  };
  for (const auto& [whole, pieces] : by_whole) {
    for (const auto& [begin, end, part] : pieces) {
      const auto inner = by_whole.find(part);
      if (inner != by_whole.end()) {
        for (const auto& [b, e, p] : inner->second) add(whole, begin + b, begin + e, p);
      }
      for (const auto& [b, e, p] : pieces) {
        if (b >= begin && e <= end && (b != begin || e != end)) add(part, b - begin, e - begin, p);
      }
    }
  }
  return changed;
}

void Sizes::tie(Ties ties) {
  std::set<Node> derived;
  for (const SizeProduct& product : products_) {
    if (product.left.size() == 1 && product.right.size() > 1) derived.insert(find(product.left[0]));
  }
  for (const auto& [interval, part] : pieces_) derived.insert(find(std::get<0>(interval)));
  std::map<std::int64_t, Node> generators;
  for (Node node = 0; node < static_cast<Node>(full_.size()); ++node) {
    const Node root = find(node);
    const auto mentioned = numbers_.find(full(node));
    if (ties != Ties::none && mentioned != numbers_.end()) {
      unite(mentioned->second, node);
    } else if (ties <= Ties::generators && !derived.contains(root)) {
      const auto [at, is_new] = generators.try_emplace(full(node), node);
      if (!is_new) unite(at->second, node);
    }
  }
  if (ties == Ties::like_pieces) tie_like_pieces();
  if (ties != Ties::none) return;
  // Every number still means some extent: the first one.
  std::map<std::int64_t, Node> first;
  for (Node node = static_cast<Node>(full_.size()); node-- > 0;) {
    first[full(node)] = node;
  }
  for (const auto& [full_size, node] : numbers_) unite(node, first.at(full_size));
}

// Dimensions of one size of which one is cut only where the other is: a buffer, and what is computed to lie beside it.
void Sizes::tie_like_pieces() {
  std::map<Node, std::set<std::int64_t>> borders;
  for (const auto& [interval, part] : pieces_) {
    const auto& [whole, begin, end] = interval;
    borders[find(whole)].insert({begin, end});
  }
  std::map<std::int64_t, std::vector<Node>> known;  // of each size, those that differ
  for (const auto& entry : borders) {
    const Node whole = entry.first;
    const std::set<std::int64_t>& at = entry.second;
    std::vector<Node>& others = known[full(whole)];
    const auto like = std::find_if(others.begin(), others.end(), [&](Node other) {
      const std::set<std::int64_t>& there = borders.at(other);
      return std::includes(there.begin(), there.end(), at.begin(), at.end()) ||
             std::includes(at.begin(), at.end(), there.begin(), there.end());
    });
    if (like == others.end()) {
      others.push_back(whole);
    } else {
      unite(*like, whole);
    }
  }
}

void Sizes::settle() {
  while (true) {
    bool changed = unite_products();
    changed = unite_pieces() || changed;
    changed = share_pieces() || changed;
    if (!changed) return;
  }
}

void Sizes::close(Ties ties, bool share) {
  most_pieces_ = share ? 2 * pieces_.size() + 200 : 0;
  settle();
  tie(ties);
  settle();
  const auto border = [&](Node whole, std::int64_t at) {
    const auto [found, is_new] = borders_[whole].try_emplace(at, whole);
    if (is_new && at != full(whole)) {
      // Not `fresh`: a position is no extent, not even that of one element.
      found->second = static_cast<Node>(full_.size());
      full_.push_back(at);
      parent_.push_back(found->second);
      border_nodes_.insert(found->second);
    }
    return found->second;
  };
  for (const auto& [interval, part] : pieces_) {
    const auto& [whole, begin, end] = interval;
    border(whole, full(whole));
    if (begin == 0) {
      sum(border(whole, end), {part});
    } else {
      const Node first = border(whole, begin);
      sum(border(whole, end), {first, part});
    }
  }
  for (const auto& [whole, at] : borders_) {
    for (auto less = at.begin(), greater = std::next(less); greater != at.end(); ++less, ++greater) {
      border_orders_.emplace_back(less->second, greater->second);
    }
  }
}

std::optional<std::int64_t> Sizes::position(Node whole, std::int64_t at, const std::vector<std::int64_t>& small) const {
  const Node root = find(whole);
  if (at == 0) return 0;
  if (at == full(root)) return small[static_cast<std::size_t>(root)];
  const auto* known = borders(root);
  if (known == nullptr || !known->contains(at)) return std::nullopt;
  return small[static_cast<std::size_t>(known->at(at))];
}

const std::map<std::int64_t, Node>* Sizes::borders(Node root) const {
  const auto at = borders_.find(root);
  return at == borders_.end() ? nullptr : &at->second;
}

Node Sizes::piece_at(Node root, std::int64_t begin, std::int64_t end) const {
  const auto at = pieces_.find({root, begin, end});
  return at == pieces_.end() ? no_node : at->second;
}

std::vector<Node> Sizes::roots() const {
  std::vector<Node> roots;
  for (Node node = 0; node < static_cast<Node>(full_.size()); ++node) {
    if (find(node) == node) roots.push_back(node);
  }
  return roots;
}

}  // namespace shardproof::execution
