#include "tests/support/arithmetic_twin.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "reference-trainer/cuda/elementwise.h"
#include "reference-trainer/model/cpu_arithmetic.h"

namespace poolscope::trainer {
namespace {

using Values = std::vector<double>;

// Inputs and outputs of one function, on both sides.
template <typename T>
class Twin {
 public:
  Twin(Arithmetic<T>& under_test, uint64_t seed) : under_test_(under_test), random_(seed) {}

  // An array of normal values (exact in T), or of zeros, at both.
  struct Array {
    T* tested;
    double* exact;
    size_t count;
  };
  Array Random(size_t count, double center = 0) {
    std::normal_distribution<double> normal(center, 1);
    Values values(count);
    for (double& each : values) each = static_cast<double>(static_cast<T>(normal(random_)));
    return Put(values);
  }
  Array Zeros(size_t count) { return Put(Values(count, 0)); }
  Array Put(const Values& values) {
    const Array array{under_test_.Allocate(values.size()), exact_.Allocate(values.size()),
                      values.size()};
    const std::vector<T> narrow(values.begin(), values.end());
    under_test_.Copy(narrow.size() * sizeof(T), narrow.data(), array.tested);
    std::copy(values.begin(), values.end(), array.exact);
    return array;
  }
  // The exact side of a copy whose values are rounded to bf16.
  double* Rounded(const Array& array, bool bf16) {
    double* rounded = exact_.Allocate(array.count);
    for (size_t i = 0; i < array.count; ++i) {
      rounded[i] =
          bf16 ? cuda::FromBf16(cuda::ToBf16(static_cast<float>(array.exact[i]))) : array.exact[i];
    }
    return rounded;
  }
  struct Bytes {
    uint8_t* tested;
    std::vector<uint8_t> exact;
  };
  Bytes RandomBytes(size_t count) {
    Bytes bytes{static_cast<uint8_t*>(under_test_.AllocateBytes(count)), {}};
    for (size_t i = 0; i < count; ++i) bytes.exact.push_back(static_cast<uint8_t>(random_()));
    under_test_.Copy(count, bytes.exact.data(), bytes.tested);
    return bytes;
  }

  void ExpectEqual(const char* what, const Array& array, size_t longest_sum) {
    std::vector<T> tested(array.count);
    under_test_.Copy(tested.size() * sizeof(T), array.tested, tested.data());
    double error = 0, norm = 0;
    for (size_t i = 0; i < array.count; ++i) {
      error += std::pow(static_cast<double>(tested[i]) - array.exact[i], 2);
      norm += std::pow(array.exact[i], 2);
    }
    const double unit = std::numeric_limits<T>::epsilon() / 2;
    const double bound = (static_cast<double>(longest_sum) + 16) * unit;
    // NaN fails too.
    EXPECT_TRUE(std::sqrt(error / norm) <= bound)
        << what << ": relative error " << std::sqrt(error / norm) << ", bound " << bound;
  }

  CpuArithmetic<double>& exact() { return exact_; }

 private:
  Arithmetic<T>& under_test_;
  CpuArithmetic<double> exact_;
  std::mt19937_64 random_;
};

template <typename T>
void TwinAdd(Arithmetic<T>& tested, bool, const TwinShape& shape) {
  Twin<T> twin(tested, 1);
  const size_t count = shape.batch * shape.time * shape.width;
  const auto a = twin.Random(count), b = twin.Random(count), sum = twin.Random(count);
  tested.Add(count, a.tested, b.tested, sum.tested);
  twin.exact().Add(count, a.exact, b.exact, sum.exact);
  twin.ExpectEqual("sum", sum, 1);
  tested.Clear(count - 1, sum.tested);
  twin.exact().Clear(count - 1, sum.exact);
  twin.ExpectEqual("cleared", sum, 1);
  const double expected = twin.exact().Sum(count, a.exact);
  EXPECT_NEAR(tested.Sum(count, a.tested), expected, 1e-9 * static_cast<double>(count));
}

template <typename T>
void TwinEmbed(Arithmetic<T>& tested, bool, const TwinShape& shape) {
  Twin<T> twin(tested, 2);
  const size_t rows = shape.batch * shape.time, width = shape.width;
  const auto tokens = twin.RandomBytes(rows);
  const auto table = twin.Random(256 * width), positions = twin.Random(shape.time * width);
  const auto y = twin.Random(rows * width);
  tested.Embed(rows, shape.time, width, tokens.tested, table.tested, positions.tested, y.tested);
  twin.exact().Embed(rows, shape.time, width, tokens.exact.data(), table.exact, positions.exact,
                     y.exact);
  twin.ExpectEqual("y", y, 1);
  const auto dtable = twin.Random(256 * width), dpositions = twin.Random(shape.time * width);
  tested.EmbedBackward(rows, shape.time, width, tokens.tested, y.tested, dtable.tested,
                       dpositions.tested);
  twin.exact().EmbedBackward(rows, shape.time, width, tokens.exact.data(), y.exact, dtable.exact,
                             dpositions.exact);
  twin.ExpectEqual("dtoken_table", dtable, rows);
  twin.ExpectEqual("dposition_table", dpositions, shape.batch);
}

template <typename T>
void TwinLinear(Arithmetic<T>& tested, bool bf16, const TwinShape& shape) {
  for (const bool biased : {true, false}) {
    Twin<T> twin(tested, 3);
    const size_t rows = shape.batch * shape.time, in = shape.width, out = shape.out;
    const auto x = twin.Random(rows * in), w = twin.Random(out * in), bias = twin.Random(out);
    const auto y = twin.Random(rows * out);
    tested.Linear(rows, in, out, x.tested, w.tested, biased ? bias.tested : nullptr, y.tested);
    twin.exact().Linear(rows, in, out, twin.Rounded(x, bf16), twin.Rounded(w, bf16),
                        biased ? bias.exact : nullptr, y.exact);
    twin.ExpectEqual("y", y, in);

    const auto dy = twin.Random(rows * out), dx = twin.Random(rows * in);
    const auto dw = twin.Random(out * in), dbias = twin.Random(out);
    tested.LinearBackward(rows, in, out, x.tested, w.tested, dy.tested, dx.tested, dw.tested,
                          biased ? dbias.tested : nullptr);
    twin.exact().LinearBackward(rows, in, out, twin.Rounded(x, bf16), twin.Rounded(w, bf16),
                                twin.Rounded(dy, bf16), dx.exact, dw.exact, nullptr);
    for (size_t i = 0; biased && i < rows * out; ++i) dbias.exact[i % out] += dy.exact[i];
    twin.ExpectEqual("dx", dx, out);
    twin.ExpectEqual("dw", dw, rows);
    twin.ExpectEqual("dbias", dbias, rows);
  }
}

template <typename T>
void TwinLayerNorm(Arithmetic<T>& tested, bool, const TwinShape& shape) {
  Twin<T> twin(tested, 4);
  const size_t rows = shape.batch * shape.time, width = shape.width;
  const auto x = twin.Random(rows * width, 0.5), gain = twin.Random(width, 1);
  const auto bias = twin.Random(width), y = twin.Zeros(rows * width);
  const auto mean = twin.Zeros(rows), rstd = twin.Zeros(rows);
  tested.LayerNorm(rows, width, x.tested, gain.tested, bias.tested, y.tested, mean.tested,
                   rstd.tested);
  twin.exact().LayerNorm(rows, width, x.exact, gain.exact, bias.exact, y.exact, mean.exact,
                         rstd.exact);
  twin.ExpectEqual("y", y, width);
  twin.ExpectEqual("mean", mean, width);
  twin.ExpectEqual("rstd", rstd, width);
  const auto dy = twin.Random(rows * width), dx = twin.Random(rows * width);
  const auto dgain = twin.Random(width), dbias = twin.Random(width);
  tested.LayerNormBackward(rows, width, x.tested, gain.tested, mean.tested, rstd.tested, dy.tested,
                           dx.tested, dgain.tested, dbias.tested);
  twin.exact().LayerNormBackward(rows, width, x.exact, gain.exact, mean.exact, rstd.exact, dy.exact,
                                 dx.exact, dgain.exact, dbias.exact);
  twin.ExpectEqual("dx", dx, 2 * width);
  twin.ExpectEqual("dgain", dgain, rows + width);
  twin.ExpectEqual("dbias", dbias, rows);
}

template <typename T>
void TwinGelu(Arithmetic<T>& tested, bool, const TwinShape& shape) {
  Twin<T> twin(tested, 5);
  const size_t count = shape.batch * shape.time * shape.width;
  const auto x = twin.Random(count), y = twin.Zeros(count);
  tested.Gelu(count, x.tested, y.tested);
  twin.exact().Gelu(count, x.exact, y.exact);
  twin.ExpectEqual("y", y, 4);
  const auto dy = twin.Random(count), dx = twin.Zeros(count);
  tested.GeluBackward(count, x.tested, dy.tested, dx.tested);
  twin.exact().GeluBackward(count, x.exact, dy.exact, dx.exact);
  twin.ExpectEqual("dx", dx, 4);
}

template <typename T>
void TwinAttention(Arithmetic<T>& tested, bool, const TwinShape& shape) {
  Twin<T> twin(tested, 6);
  const auto& [batch, time, width, heads, out] = shape;
  const auto qkv = twin.Random(batch * time * 3 * width), y = twin.Zeros(batch * time * width);
  // Beyond the diagonal the weights are zero, whatever was there.
  const auto weights = twin.Random(batch * heads * time * time);
  tested.Attention(batch, time, width, heads, qkv.tested, weights.tested, y.tested);
  twin.exact().Attention(batch, time, width, heads, qkv.exact, weights.exact, y.exact);
  twin.ExpectEqual("weights", weights, time + width / heads);
  twin.ExpectEqual("y", y, 2 * time + width / heads);
  const auto dy = twin.Random(batch * time * width), dqkv = twin.Random(qkv.count);
  const auto scratch = twin.Random(batch * heads * time * time);
  tested.AttentionBackward(batch, time, width, heads, qkv.tested, weights.tested, dy.tested,
                           dqkv.tested, scratch.tested);
  twin.exact().AttentionBackward(batch, time, width, heads, qkv.exact, weights.exact, dy.exact,
                                 dqkv.exact, scratch.exact);
  twin.ExpectEqual("dqkv", dqkv, 3 * time + 2 * width / heads);
}

template <typename T>
void TwinSoftmaxCrossEntropy(Arithmetic<T>& tested, bool, const TwinShape& shape) {
  Twin<T> twin(tested, 7);
  const size_t rows = shape.batch * shape.time, classes = 256;
  const auto logits = twin.Random(rows * classes), losses = twin.Zeros(rows);
  const auto targets = twin.RandomBytes(rows);
  tested.SoftmaxCrossEntropy(rows, classes, logits.tested, targets.tested, losses.tested);
  twin.exact().SoftmaxCrossEntropy(rows, classes, logits.exact, targets.exact.data(), losses.exact);
  twin.ExpectEqual("probabilities", logits, classes);
  twin.ExpectEqual("losses", losses, classes);
  tested.SoftmaxCrossEntropyBackward(rows, classes, logits.tested, targets.tested);
  twin.exact().SoftmaxCrossEntropyBackward(rows, classes, logits.exact, targets.exact.data());
  twin.ExpectEqual("dlogits", logits, classes);
}

}  // namespace

template <typename T>
std::vector<TwinCase<T>> TwinCases() {
  return {{"Add", TwinAdd<T>},
          {"Embed", TwinEmbed<T>},
          {"Linear", TwinLinear<T>},
          {"LayerNorm", TwinLayerNorm<T>},
          {"Gelu", TwinGelu<T>},
          {"Attention", TwinAttention<T>},
          {"SoftmaxCrossEntropy", TwinSoftmaxCrossEntropy<T>}};
}

template std::vector<TwinCase<float>> TwinCases<float>();
template std::vector<TwinCase<double>> TwinCases<double>();

}  // namespace poolscope::trainer
