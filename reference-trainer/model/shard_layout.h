#pragma once

#include <cstddef>
#include <vector>

#include "reference-trainer/model/parameters.h"
#include "reference-trainer/model/ranges.h"

namespace poolscope::trainer {

// Which parameters each update worker owns.
//   flat   equal parts of the flat parameters
//   layer  whole layers; what precedes the layers and what follows them is one each
//   head   of each attention head its query, key and value rows and its columns of the projection;
//          everything else is dealt out so that all shards are of one size, as far as that goes
enum class ShardLayout { kFlat, kLayer, kHead };
const char* ShardLayoutName(ShardLayout layout);

// How many shards the layout can make without an empty one.
size_t MostShards(ShardLayout layout, const GptShape& shape);

// The ranges of each of `count` shards; together they are all parameters, each once.
std::vector<Ranges> LayOut(ShardLayout layout, const GptShape& shape, size_t count);

}  // namespace poolscope::trainer
