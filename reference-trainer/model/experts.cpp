#include "reference-trainer/model/experts.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "reference-trainer/data.h"
#include "reference-trainer/model/kernels.h"

namespace poolscope::trainer {
namespace {

constexpr uint64_t kDrawnTokens = 2048;  // of more, a sample is drawn and scaled up

// The indices of the k largest of scores[count], the lower index first among equals.
template <typename T>
void Largest(const T* scores, size_t count, size_t k, std::vector<size_t>& order) {
  order.resize(count);
  std::iota(order.begin(), order.end(), size_t{0});
  std::partial_sort(
      order.begin(), order.begin() + static_cast<std::ptrdiff_t>(k), order.end(),
      [&](size_t a, size_t b) { return scores[a] != scores[b] ? scores[a] > scores[b] : a < b; });
  order.resize(k);
}

}  // namespace

template <typename T>
Experts<T>::Experts(const GptShape& shape, const Parameters& parameters, size_t rows)
    : shape_(shape),
      at_(parameters),
      rows_(rows),
      load_(shape.experts),
      first_(shape.experts),
      rows_of_(shape.experts) {
  const size_t entries = rows * shape.experts_per_token;
  probabilities_.resize(rows * shape.experts);
  d_probabilities_.resize(rows * shape.experts);
  row_.resize(entries);
  for (auto* each : {&inputs_, &outputs_, &d_outputs_, &d_inputs_}) {
    each->resize(entries * shape.width);
  }
  for (auto* each : {&expanded_, &activated_, &d_wide_, &d_wide2_}) {
    each->resize(entries * 4 * shape.width);
  }
  d_router_.resize(rows * shape.width);
}

template <typename T>
void Experts<T>::Route(const T* values, const T* x) {
  const size_t experts = shape_.experts;
  Linear<T>(rows_, shape_.width, experts, x, values + at_.router_weight, nullptr,
            probabilities_.data());
  for (std::vector<size_t>& each : rows_of_) each.clear();
  std::vector<size_t> chosen;
  for (size_t row = 0; row < rows_; ++row) {
    T* p = probabilities_.data() + row * experts;
    for (size_t e = 0; e < experts; ++e) {
      p[e] -= static_cast<T>(shape_.expert_skew * std::log1p(static_cast<double>(e)));
    }
    const T top = *std::max_element(p, p + experts);
    T sum = 0;
    for (size_t e = 0; e < experts; ++e) sum += p[e] = std::exp(p[e] - top);
    for (size_t e = 0; e < experts; ++e) p[e] /= sum;
    Largest(p, experts, shape_.experts_per_token, chosen);
    for (const size_t e : chosen) rows_of_[e].push_back(row);
  }
  size_t entry = 0;
  for (size_t e = 0; e < experts; ++e) {
    first_[e] = entry;
    load_[e] = rows_of_[e].size();
    for (const size_t row : rows_of_[e]) row_[entry++] = row;
  }
}

template <typename T>
double Experts<T>::balance_loss() const {
  const size_t experts = shape_.experts;
  double sum = 0;
  for (size_t e = 0; e < experts; ++e) {
    double probability = 0;
    for (size_t row = 0; row < rows_; ++row) {
      probability += static_cast<double>(probabilities_[row * experts + e]);
    }
    sum += static_cast<double>(load_[e]) / static_cast<double>(row_.size()) * probability /
           static_cast<double>(rows_);
  }
  return shape_.expert_balance * static_cast<double>(experts) * sum;
}

template <typename T>
void Experts<T>::Forward(const T* values, const T* x, T* y) {
  const size_t width = shape_.width;
  std::fill(y, y + rows_ * width, T{0});
  for (size_t e = 0; e < shape_.experts; ++e) {
    const auto [begin, count] = SliceOf(e);
    if (count == 0) continue;
    const T* w = values + e * at_.expert_stride;
    T* input = inputs_.data() + begin * width;
    T* output = outputs_.data() + begin * width;
    T* expanded = expanded_.data() + begin * 4 * width;
    T* activated = activated_.data() + begin * 4 * width;
    for (size_t i = 0; i < count; ++i) {
      std::copy_n(x + row_[begin + i] * width, width, input + i * width);
    }
    Linear(count, width, 4 * width, input, w + at_.expand_weight, w + at_.expand_bias, expanded);
    Gelu(count * 4 * width, expanded, activated);
    Linear(count, 4 * width, width, activated, w + at_.contract_weight, w + at_.contract_bias,
           output);
    for (size_t i = 0; i < count; ++i) {
      const size_t row = row_[begin + i];
      const T p = probabilities_[row * shape_.experts + e];
      for (size_t j = 0; j < width; ++j) y[row * width + j] += p * output[i * width + j];
    }
  }
}

template <typename T>
void Experts<T>::Backward(const T* values, const T* dy, T* dx, T* gradients) {
  const size_t width = shape_.width;
  std::fill(dx, dx + rows_ * width, T{0});
  std::fill(d_probabilities_.begin(), d_probabilities_.end(), T{0});
  for (size_t e = 0; e < shape_.experts; ++e) {
    const auto [begin, count] = SliceOf(e);
    if (count == 0) continue;
    const T* w = values + e * at_.expert_stride;
    T* dw = gradients + e * at_.expert_stride;
    const T* output = outputs_.data() + begin * width;
    T* d_output = d_outputs_.data() + begin * width;
    T* d_input = d_inputs_.data() + begin * width;
    T* d_wide = d_wide_.data() + begin * 4 * width;
    T* d_wide2 = d_wide2_.data() + begin * 4 * width;
    for (size_t i = 0; i < count; ++i) {
      const size_t at = row_[begin + i] * shape_.experts + e;
      const T* slope = dy + row_[begin + i] * width;
      T sum = 0;
      for (size_t j = 0; j < width; ++j) {
        sum += slope[j] * output[i * width + j];
        d_output[i * width + j] = probabilities_[at] * slope[j];
      }
      d_probabilities_[at] = sum;
    }
    LinearBackward(count, 4 * width, width, activated_.data() + begin * 4 * width,
                   w + at_.contract_weight, d_output, d_wide, dw + at_.contract_weight,
                   dw + at_.contract_bias);
    GeluBackward(count * 4 * width, expanded_.data() + begin * 4 * width, d_wide, d_wide2);
    LinearBackward(count, width, 4 * width, inputs_.data() + begin * width, w + at_.expand_weight,
                   d_wide2, d_input, dw + at_.expand_weight, dw + at_.expand_bias);
    for (size_t i = 0; i < count; ++i) {
      T* to = dx + row_[begin + i] * width;
      for (size_t j = 0; j < width; ++j) to[j] += d_input[i * width + j];
    }
  }
}

template <typename T>
void Experts<T>::RouteBackward(const T* values, const T* x, T* dx, T* gradients) {
  const size_t width = shape_.width, experts = shape_.experts;
  const T balance = static_cast<T>(shape_.expert_balance * static_cast<double>(experts) /
                                   static_cast<double>(row_.size() * rows_));
  for (size_t row = 0; row < rows_; ++row) {
    const T* p = probabilities_.data() + row * experts;
    T* d = d_probabilities_.data() + row * experts;
    T mean = 0;
    for (size_t e = 0; e < experts; ++e) {
      d[e] += balance * static_cast<T>(load_[e]);
      mean += p[e] * d[e];
    }
    for (size_t e = 0; e < experts; ++e) d[e] = p[e] * (d[e] - mean);
  }
  LinearBackward<T>(rows_, width, experts, x, values + at_.router_weight, d_probabilities_.data(),
                    d_router_.data(), gradients + at_.router_weight, nullptr);
  for (size_t i = 0; i < rows_ * width; ++i) dx[i] += d_router_[i];
}

template class Experts<float>;
template class Experts<double>;

std::vector<uint64_t> DrawExpertLoad(const GptShape& shape, uint64_t tokens, uint64_t seed) {
  std::vector<uint64_t> load(shape.experts, 0);
  std::vector<double> scores(shape.experts);
  std::vector<size_t> chosen;
  const uint64_t drawn = std::min(tokens, kDrawnTokens);
  for (uint64_t token = 0; token < drawn; ++token) {
    for (size_t e = 0; e < shape.experts; ++e) {
      const double uniform = (static_cast<double>(SplitMix64(seed) >> 11) + 0.5) * 0x1p-53;
      scores[e] =
          -std::log(-std::log(uniform)) - shape.expert_skew * std::log1p(static_cast<double>(e));
    }
    Largest(scores.data(), scores.size(), shape.experts_per_token, chosen);
    for (const size_t e : chosen) ++load[e];
  }
  for (uint64_t& each : load) each = each * tokens / drawn;
  return load;
}

}  // namespace poolscope::trainer
