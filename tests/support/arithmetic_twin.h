#pragma once

#include <cstddef>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "reference-trainer/model/arithmetic.h"

namespace poolscope::trainer {

// Sizes that a comparison uses; batch × time are the rows.
struct TwinShape {
  size_t batch, time, width, heads, out;
};

// One function of kernels.h, compared: as computed by the Arithmetic under test against its CPU
// twin in double precision, given the same inputs. `bf16`: products take inputs rounded to bf16,
// and so does the twin. Failures are gtest's.
//
// Bound: the norm of the error ÷ the norm of the result is at most (n + 16) × u, with n the longest
// sum of the function and u the unit roundoff of T. A sum of n products, in any order, is off by at
// most about n × u of the sum of their magnitudes (Higham, Accuracy and Stability of Numerical
// Algorithms, 2nd ed., eq. 3.5), and over random data by about sqrt(n) × u, which leaves sqrt(n)
// for cancellation. 16 leaves room for exp, tanh and division, each within 2 units in the last
// place on a device (CUDA C++ Programming Guide, "Mathematical Functions").
template <typename T>
struct TwinCase {
  std::string name;
  std::function<void(Arithmetic<T>& under_test, bool bf16, const TwinShape& shape)> run;
};
template <typename T>
void PrintTo(const TwinCase<T>& each, std::ostream* out) {
  *out << each.name;
}

// A case for every function of Arithmetic.
template <typename T>
std::vector<TwinCase<T>> TwinCases();

}  // namespace poolscope::trainer
