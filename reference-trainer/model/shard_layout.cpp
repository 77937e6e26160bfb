#include "reference-trainer/model/shard_layout.h"

#include <algorithm>
#include <numeric>

namespace poolscope::trainer {
namespace {

// Gives each unit, the largest first, to the shard that has least (Graham 1969): by unit, its
// shard.
std::vector<size_t> Deal(const std::vector<size_t>& sizes, size_t count) {
  std::vector<size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return sizes[a] > sizes[b]; });
  std::vector<size_t> owner(sizes.size()), load(count, 0);
  for (const size_t unit : order) {
    const auto least = std::min_element(load.begin(), load.end());
    *least += sizes[unit];
    owner[unit] = static_cast<size_t>(least - load.begin());
  }
  return owner;
}

// Appends a part, or lengthens the last one where it follows on it.
void Append(Ranges& ranges, Part part) {
  if (part.size() == 0) return;
  if (!ranges.empty() && ranges.back().end == part.begin) {
    ranges.back().end = part.end;
  } else {
    ranges.push_back(part);
  }
}

Ranges Sorted(Ranges ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const Part& a, const Part& b) { return a.begin < b.begin; });
  Ranges merged;
  for (const Part& part : ranges) Append(merged, part);
  return merged;
}

std::vector<Ranges> Flat(size_t total, size_t count) {
  std::vector<Ranges> shards(count);
  for (size_t i = 0; i < count; ++i) shards[i] = {PartOf(total, i, count)};
  return shards;
}

std::vector<Ranges> ByLayer(const GptShape& shape, size_t count) {
  const Parameters at(shape);
  const size_t layers = at.norm1_gain;  // where the first one begins
  const size_t after = layers + shape.layers * at.layer_stride;
  std::vector<Part> units = {{0, layers}, {after, at.size()}};
  for (size_t layer = 0; layer < shape.layers; ++layer) {
    units.push_back({layers + layer * at.layer_stride, layers + (layer + 1) * at.layer_stride});
  }
  std::vector<size_t> sizes;
  for (const Part& unit : units) sizes.push_back(unit.size());
  const std::vector<size_t> owner = Deal(sizes, count);
  std::vector<Ranges> shards(count);
  for (size_t unit = 0; unit < units.size(); ++unit) shards[owner[unit]].push_back(units[unit]);
  for (Ranges& shard : shards) shard = Sorted(std::move(shard));
  return shards;
}

// Of a head, in the layer whose first parameter lies `shift` after that of layer 0.
Ranges PartsOfHead(const GptShape& shape, const Parameters& at, size_t shift, size_t head) {
  const size_t width = shape.width, own = width / shape.heads;
  Ranges parts;
  for (size_t which = 0; which < 3; ++which) {  // query, key, value
    const size_t row = which * width + head * own;
    const size_t weight = shift + at.qkv_weight + row * width, bias = shift + at.qkv_bias + row;
    parts.push_back({weight, weight + own * width});
    parts.push_back({bias, bias + own});
  }
  for (size_t row = 0; row < width; ++row) {
    const size_t columns = shift + at.projection_weight + row * width + head * own;
    parts.push_back({columns, columns + own});
  }
  return parts;
}

std::vector<Ranges> ByHead(const GptShape& shape, size_t count) {
  const Parameters at(shape);
  const size_t heads = shape.layers * shape.heads;
  std::vector<Ranges> shards(count);
  Ranges taken;
  for (size_t unit = 0; unit < heads; ++unit) {
    const size_t shift = unit / shape.heads * at.layer_stride;
    for (const Part& part : PartsOfHead(shape, at, shift, unit % shape.heads)) {
      shards[unit % count].push_back(part);
      taken.push_back(part);
    }
  }
  // The rest fills every shard up to the same size, beginning with the first.
  Ranges rest;
  size_t next = 0;
  for (const Part& part : Sorted(std::move(taken))) {
    Append(rest, {next, part.begin});
    next = part.end;
  }
  Append(rest, {next, at.size()});
  size_t from = 0;  // of rest
  size_t left = at.size(), shards_left = count;
  std::vector<size_t> by_size(count);  // those that need least first: others' share grows
  std::iota(by_size.begin(), by_size.end(), size_t{0});
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](size_t a, size_t b) { return SizeOf(shards[a]) > SizeOf(shards[b]); });
  for (const size_t shard : by_size) {
    const size_t has = SizeOf(shards[shard]);
    size_t needs = left / shards_left > has ? left / shards_left - has : 0;
    if (shards_left == 1) needs = left - has;
    left -= has + needs;
    --shards_left;
    while (needs > 0) {
      Part& part = rest[from];
      const size_t takes = std::min(needs, part.size());
      shards[shard].push_back({part.begin, part.begin + takes});
      part.begin += takes;
      needs -= takes;
      if (part.size() == 0) ++from;
    }
  }
  for (Ranges& shard : shards) shard = Sorted(std::move(shard));
  return shards;
}

}  // namespace

const char* ShardLayoutName(ShardLayout layout) {
  return layout == ShardLayout::kFlat ? "flat" : layout == ShardLayout::kLayer ? "layer" : "head";
}

size_t MostShards(ShardLayout layout, const GptShape& shape) {
  return layout == ShardLayout::kLayer ? shape.layers + 2 : Parameters(shape).size();
}

std::vector<Ranges> LayOut(ShardLayout layout, const GptShape& shape, size_t count) {
  switch (layout) {
    case ShardLayout::kFlat:
      break;
    case ShardLayout::kLayer:
      return ByLayer(shape, count);
    case ShardLayout::kHead:
      return ByHead(shape, count);
  }
  return Flat(Parameters(shape).size(), count);
}

}  // namespace poolscope::trainer
