// Arithmetic on sizes gives Python's results, or an error where there is none.
#include "stoker/models/size_arithmetic.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "stoker/base/error.h"

namespace stoker {
namespace {

using c10::IValue;

IValue of(std::string_view target, const std::vector<IValue>& operands) {
    const SizeFunction function = find_size_function(target);
    EXPECT_NE(function, nullptr) << target;
    return function(operands);
}

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();

TEST(SizeArithmetic, OfWholeNumbersIsPythons) {
    for (const std::int64_t a : {-7, -1, 0, 1, 6, 7}) {
        for (const std::int64_t b : {-3, -1, 1, 2, 7}) {
            const std::int64_t quotient = of("_operator.floordiv", {a, b}).toInt();
            const std::int64_t rest = of("_operator.mod", {a, b}).toInt();
            EXPECT_EQ(quotient * b + rest, a);
            EXPECT_TRUE(rest == 0 || (rest < 0) == (b < 0)) << a << " " << b;
            EXPECT_LT(std::abs(rest), std::abs(b));
            EXPECT_EQ(of("_operator.add", {a, b}).toInt(), a + b);
            EXPECT_EQ(of("_operator.sub", {a, b}).toInt(), a - b);
            EXPECT_EQ(of("_operator.mul", {a, b}).toInt(), a * b);
            EXPECT_EQ(of("_operator.lt", {a, b}).toBool(), a < b);
            EXPECT_EQ(of("_operator.ge", {a, b}).toBool(), a >= b);
            EXPECT_EQ(of("_operator.eq", {a, b}).toBool(), a == b);
            EXPECT_EQ(of("torch.sym_max", {a, b}).toInt(), std::max(a, b));
            EXPECT_EQ(of("torch.sym_min", {a, b}).toInt(), std::min(a, b));
            EXPECT_DOUBLE_EQ(of("_operator.truediv", {a, b}).toDouble(),
                             static_cast<double>(a) / static_cast<double>(b));
        }
    }
    EXPECT_EQ(of("_operator.pow", {3, 4}).toInt(), 81);
    EXPECT_EQ(of("_operator.pow", {-2, 63}).toInt(), kLeast);
    EXPECT_EQ(of("_operator.pow", {-1, kMost}).toInt(), -1);
    EXPECT_EQ(of("_operator.pow", {-1, kMost - 1}).toInt(), 1);
    EXPECT_EQ(of("_operator.pow", {0, 0}).toInt(), 1);
    EXPECT_EQ(of("_operator.pow", {0, kMost}).toInt(), 0);
    EXPECT_DOUBLE_EQ(of("_operator.pow", {2, -1}).toDouble(), 0.5);
    EXPECT_EQ(of("_operator.neg", {5}).toInt(), -5);
    EXPECT_EQ(of("_operator.and_", {6, 3}).toInt(), 2);
    EXPECT_EQ(of("_operator.add", {true, 2}).toInt(), 3);
}

TEST(SizeArithmetic, OfRealNumbersAndTruthValues) {
    EXPECT_DOUBLE_EQ(of("_operator.mul", {3, 0.5}).toDouble(), 1.5);
    EXPECT_DOUBLE_EQ(of("_operator.floordiv", {-1.0, 2}).toDouble(), -1);
    EXPECT_DOUBLE_EQ(of("_operator.mod", {-1.0, 2}).toDouble(), 1);
    EXPECT_DOUBLE_EQ(of("torch._sym_sqrt", {16}).toDouble(), 4);
    EXPECT_DOUBLE_EQ(of("torch.sym_float", {3}).toDouble(), 3);
    EXPECT_EQ(of("math.trunc", {-2.7}).toInt(), -2);
    EXPECT_EQ(of("torch.sym_int", {2.7}).toInt(), 2);
    EXPECT_TRUE(of("_operator.and_", {true, true}).toBool());
    EXPECT_FALSE(of("torch.sym_not", {true}).toBool());
    EXPECT_EQ(of("torch.sym_ite", {false, 1, 2}).toInt(), 2);
    EXPECT_TRUE(of("_operator.ne", {1, 1.5}).toBool());
}

TEST(SizeArithmetic, WithoutAResultIsRefused) {
    EXPECT_THROW(of("_operator.add", {kMost, 1}), DataError);
    EXPECT_THROW(of("_operator.sub", {kLeast, 1}), DataError);
    EXPECT_THROW(of("_operator.mul", {kMost, 2}), DataError);
    EXPECT_THROW(of("_operator.neg", {kLeast}), DataError);
    EXPECT_THROW(of("_operator.floordiv", {kLeast, -1}), DataError);
    EXPECT_EQ(of("_operator.mod", {kLeast, -1}).toInt(), 0);
    EXPECT_THROW(of("_operator.pow", {2, 63}), DataError);
    EXPECT_THROW(of("_operator.pow", {3, kMost}), DataError);
    EXPECT_THROW(of("_operator.floordiv", {1, 0}), DataError);
    EXPECT_THROW(of("_operator.mod", {1.5, 0}), DataError);
    EXPECT_THROW(of("_operator.truediv", {1, 0}), DataError);
    EXPECT_THROW(of("math.trunc", {1e300}), DataError);
    EXPECT_THROW(of("torch.sym_int", {std::numeric_limits<double>::quiet_NaN()}), DataError);
    EXPECT_THROW(of("_operator.add", {1}), DataError);
    EXPECT_THROW(of("_operator.add", {1, "2"}), DataError);
    EXPECT_EQ(find_size_function("_operator.xor"), nullptr);
}

}  // namespace
}  // namespace stoker
