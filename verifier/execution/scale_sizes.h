// The sizes of a document as unknowns, and what its programs and placements ask of them. Sizes that must agree (the
// extents of the operands of an addition) are one unknown; products come from reshapes, digits and collectives, sums
// from pieces that lie end to end along a dimension.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

namespace shardproof::execution {

using Node = int;                // an unknown; equal ones are found by `find`
inline constexpr Node no_node = -1;

struct SizeProduct {
  std::vector<Node> left, right;  // the products of both sides are equal
};
struct SizeSum {
  Node total = no_node;
  std::vector<Node> parts;
};
// A number that is `rest` times the product of `over` by the product of `under`.
struct SizeCount {
  std::vector<Node> over, under;
  std::int64_t rest = 1;
};
// The real extent ends inside the last shard of a padded dimension.
struct LastShard {
  Node real = no_node, padded = no_node, shard = no_node;
};

// How much that is equal at full size stays equal though nothing in the document ties it.
// From the most to the least; `none` leaves numbers that are written down alone to one of the sizes that they may mean.
enum class Ties : std::uint8_t { like_pieces, generators, mentioned, none };

class Sizes {
 public:
  Sizes() { fresh(1); }

  Node fresh(std::int64_t full);           // a size; all of size 1 are one unknown
  Node number(std::int64_t full);          // a size that is written down alone: it is that of all equal extents
  bool unite(Node a, Node b);              // false if the sizes differ
  Node find(Node node) const;
  std::int64_t full(Node node) const { return full_[static_cast<std::size_t>(node)]; }
  std::size_t count() const { return full_.size(); }

  void product(std::vector<Node> left, std::vector<Node> right);
  void sum(Node total, std::vector<Node> parts);
  void order(Node less, Node greater);     // strictly
  void last_shard(LastShard constraint) { last_shards_.push_back(constraint); }
  void keep(Node node) { kept_.insert(node); }              // stays as it is
  void piece(Node whole, std::int64_t begin, Node part);    // `part` lies in `whole` from `begin` on

  // Finds what is the same because it is computed in the same way, and where the pieces of dimensions lie.
  // `share`: pieces of pieces as well, which cuts much where pieces overlap.
  void close(Ties ties, bool share);
  // Where a position of the full dimension lies, given the small sizes; nullopt if nothing begins or ends there.
  std::optional<std::int64_t> position(Node whole, std::int64_t at, const std::vector<std::int64_t>& small) const;

  // Where pieces of a root begin and end: full positions and their small counterparts, but for 0. Null without pieces.
  const std::map<std::int64_t, Node>* borders(Node root) const;
  // The piece that lies exactly there, or no_node.
  Node piece_at(Node root, std::int64_t begin, std::int64_t end) const;

  bool has_extent(std::int64_t full) const { return extents_.contains(full); }
  const std::set<std::int64_t>& extents() const { return extents_; }
  const std::map<std::int64_t, Node>& numbers() const { return numbers_; }
  Node known_number(std::int64_t full) const;  // no_node if it was never asked for
  const std::vector<SizeProduct>& products() const { return products_; }
  const std::vector<SizeSum>& sums() const { return sums_; }
  const std::vector<std::pair<Node, Node>>& orders() const { return orders_; }
  const std::vector<std::pair<Node, Node>>& border_orders() const { return border_orders_; }
  const std::vector<LastShard>& last_shards() const { return last_shards_; }
  const std::set<Node>& kept() const { return kept_; }
  bool is_border(Node node) const { return border_nodes_.contains(node); }
  std::vector<Node> roots() const;

 private:
  using Interval = std::tuple<Node, std::int64_t, std::int64_t>;  // root of the whole, begin, end

  bool unite_products();
  bool unite_pieces();
  bool share_pieces();
  void tie(Ties ties);
  void tie_like_pieces();
  void settle();

  std::vector<std::int64_t> full_;
  mutable std::vector<Node> parent_;
  std::vector<SizeProduct> products_;
  std::vector<SizeSum> sums_;
  std::vector<std::pair<Node, Node>> orders_;
  std::vector<LastShard> last_shards_;
  std::vector<std::pair<Node, Node>> border_orders_;
  std::set<Node> kept_, border_nodes_;
  std::map<Interval, Node> pieces_;
  std::map<std::int64_t, Node> numbers_;
  std::set<std::int64_t> extents_;
  std::map<Node, std::map<std::int64_t, Node>> borders_;
  std::size_t most_pieces_ = 0;
};

}  // namespace shardproof::execution
