#include "stoker/models/size_arithmetic.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <utility>

#include "stoker/base/error.h"

namespace stoker {
namespace {

using c10::IValue;
using Operands = std::span<const IValue>;

[[noreturn]] void refuse(std::string expected, std::string got) {
    throw DataError({}, {.where = "model.export", .expected = std::move(expected), .got = std::move(got)});
}

void require_count(Operands operands, std::size_t count) {
    if (operands.size() != count) {
        refuse("arithmetic on sizes with " + std::to_string(count) + " operands", std::to_string(operands.size()));
    }
}

bool is_whole(const IValue& value) {
    return value.isInt() || value.isBool();  // True is 1, as in Python
}

std::int64_t whole(const IValue& value) {
    if (!is_whole(value)) {
        refuse("a whole number in arithmetic on sizes", value.tagKind());
    }
    return value.isBool() ? static_cast<std::int64_t>(value.toBool()) : value.toInt();
}

double real(const IValue& value) {
    return value.isDouble() ? value.toDouble() : static_cast<double>(whole(value));
}

bool all_whole(Operands operands) {
    return std::ranges::all_of(operands, is_whole);
}

[[noreturn]] void refuse_overflow() {
    refuse("sizes within 64 bits", "a result beyond them");
}

std::int64_t rounded(double value) {
    if (!(std::abs(value) < 0x1p63)) {
        refuse_overflow();
    }
    return static_cast<std::int64_t>(value);
}

// On two whole numbers by `checked`, which returns true on overflow; otherwise on real ones.
template <typename Checked, typename Real>
IValue calculate(Operands operands, const Checked& checked, const Real& on_reals) {
    require_count(operands, 2);
    if (!all_whole(operands)) {
        return on_reals(real(operands[0]), real(operands[1]));
    }
    std::int64_t result = 0;
    if (checked(whole(operands[0]), whole(operands[1]), result)) {
        refuse_overflow();
    }
    return result;
}

IValue add(Operands operands) {
    return calculate(
        operands, [](auto a, auto b, auto& sum) { return __builtin_add_overflow(a, b, &sum); }, std::plus<>());
}

IValue subtract(Operands operands) {
    return calculate(
        operands, [](auto a, auto b, auto& left) { return __builtin_sub_overflow(a, b, &left); }, std::minus<>());
}

bool multiply_overflows(std::int64_t a, std::int64_t b, std::int64_t& product) {
    return __builtin_mul_overflow(a, b, &product);
}

IValue multiply(Operands operands) {
    return calculate(operands, multiply_overflows, std::multiplies<>());
}

IValue negate(Operands operands) {
    require_count(operands, 1);
    return is_whole(operands[0]) ? subtract(std::array{IValue(0), operands[0]}) : IValue(-real(operands[0]));
}

double divisor(const IValue& value) {
    if (real(value) == 0) {
        refuse("sizes that are not divided by 0", "0");
    }
    return real(value);
}

IValue divide(Operands operands) {
    require_count(operands, 2);
    return real(operands[0]) / divisor(operands[1]);
}

// Rounded towards minus infinity.
IValue floor_divide(Operands operands) {
    require_count(operands, 2);
    divisor(operands[1]);
    return calculate(
        operands,
        [](std::int64_t a, std::int64_t b, std::int64_t& quotient) {
            if (b == -1) {  // the one case that overflows
                return __builtin_sub_overflow(std::int64_t{0}, a, &quotient);
            }
            quotient = a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
            return false;
        },
        [](double a, double b) { return std::floor(a / b); });
}

// The remainder has the divisor's sign.
IValue remainder(Operands operands) {
    require_count(operands, 2);
    divisor(operands[1]);
    return calculate(
        operands,
        [](std::int64_t a, std::int64_t b, std::int64_t& rest) {
            rest = b == -1 ? 0 : a % b;
            rest += rest != 0 && (rest < 0) != (b < 0) ? b : 0;
            return false;
        },
        [](double a, double b) { return a - b * std::floor(a / b); });
}

IValue power(Operands operands) {
    require_count(operands, 2);
    if (!all_whole(operands) || whole(operands[1]) < 0) {
        return std::pow(real(operands[0]), real(operands[1]));
    }
    return calculate(
        operands,
        [](std::int64_t base, std::int64_t exponent, std::int64_t& product) {
            const bool grows = base < -1 || base > 1;  // others have two powers, by the exponent's parity
            const std::int64_t times = grows || exponent == 0 ? exponent : 2 - exponent % 2;
            product = 1;
            bool overflow = false;
            for (std::int64_t i = 0; i < times && !overflow; ++i) {
                overflow = multiply_overflows(product, base, product);
            }
            return overflow;
        },
        [](double, double) { return 0.0; });
}

template <typename Compare>
IValue compare(Operands operands) {
    require_count(operands, 2);
    return all_whole(operands) ? Compare()(whole(operands[0]), whole(operands[1]))
                               : Compare()(real(operands[0]), real(operands[1]));
}

IValue bit_and(Operands operands) {
    require_count(operands, 2);
    if (operands[0].isBool() && operands[1].isBool()) {
        return operands[0].toBool() && operands[1].toBool();
    }
    return whole(operands[0]) & whole(operands[1]);
}

IValue logical_not(Operands operands) {
    require_count(operands, 1);
    return real(operands[0]) == 0;
}

template <bool largest>
IValue choose(Operands operands) {
    require_count(operands, 2);
    const bool first = largest == (real(operands[0]) >= real(operands[1]));
    return operands[first ? 0 : 1];
}

IValue if_then_else(Operands operands) {
    require_count(operands, 3);
    return operands[real(operands[0]) != 0 ? 1 : 2];
}

IValue to_real(Operands operands) {
    require_count(operands, 1);
    return real(operands[0]);
}

IValue truncate(Operands operands) {
    require_count(operands, 1);
    return is_whole(operands[0]) ? whole(operands[0]) : rounded(std::trunc(real(operands[0])));
}

IValue square_root(Operands operands) {
    require_count(operands, 1);
    return std::sqrt(real(operands[0]));
}

constexpr std::pair<std::string_view, SizeFunction> kFunctions[] = {
    {"_operator.add", add},
    {"_operator.and_", bit_and},
    {"_operator.eq", compare<std::equal_to<>>},
    {"_operator.floordiv", floor_divide},
    {"_operator.ge", compare<std::greater_equal<>>},
    {"_operator.gt", compare<std::greater<>>},
    {"_operator.le", compare<std::less_equal<>>},
    {"_operator.lt", compare<std::less<>>},
    {"_operator.mod", remainder},
    {"_operator.mul", multiply},
    {"_operator.ne", compare<std::not_equal_to<>>},
    {"_operator.neg", negate},
    {"_operator.pow", power},
    {"_operator.sub", subtract},
    {"_operator.truediv", divide},
    {"math.trunc", truncate},
    {"torch._sym_sqrt", square_root},
    {"torch.sym_float", to_real},
    {"torch.sym_int", truncate},
    {"torch.sym_ite", if_then_else},
    {"torch.sym_max", choose<true>},
    {"torch.sym_min", choose<false>},
    {"torch.sym_not", logical_not},
};

}  // namespace

SizeFunction find_size_function(std::string_view target) {
    const auto* const found = std::ranges::find(kFunctions, target, &std::pair<std::string_view, SizeFunction>::first);
    return found == std::end(kFunctions) ? nullptr : found->second;
}

}  // namespace stoker
