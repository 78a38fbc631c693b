#include "stoker/profile/flops.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

namespace stoker {
namespace {

using Shape = std::vector<std::uint64_t>;

// The inputs' shapes; empty for an input that is not a tensor. Empty for text that is not a list of lists of numbers.
std::vector<Shape> shapes_of(const std::string& text) {
    try {
        return nlohmann::json::parse(text).get<std::vector<Shape>>();
    } catch (const nlohmann::json::exception&) {
        return {};
    }
}

std::uint64_t product(const Shape& shape) {
    std::uint64_t product = 1;
    for (const std::uint64_t size : shape) {
        product *= size;
    }
    return product;
}

// Two for each weight that meets each position of the output. `output` is (N, out, ...), `weight` (out, in / groups,
// k...).
std::uint64_t convolution(const Shape& output, const Shape& weight) {
    if (output.size() < 3 || weight.size() != output.size() || weight[0] == 0) {
        return 0;
    }
    return 2 * product(output) / weight[0] * product(weight);
}

// The gradients of input and weight cost as much as the forward each. If the input needs none, as in a network's first
// layer, LibTorch does not say so in the shapes; the caller's count is then too high by that half.
std::uint64_t convolution_backward(const std::vector<Shape>& shapes) {
    return shapes.size() < 3 ? 0 : 2 * convolution(shapes[0], shapes[2]);
}

// Products over all pairs of a query (..., queries, width) and a key (..., keys, width): `by_key` of the width of a
// key, `by_value` of the width of a value (..., keys, width of a value). `first`: the query's place in the shapes.
std::uint64_t attention(const std::vector<Shape>& shapes, std::size_t first, std::uint64_t by_key,
                        std::uint64_t by_value) {
    if (shapes.size() < first + 3) {
        return 0;
    }
    const Shape& query = shapes[first];
    const Shape& key = shapes[first + 1];
    const Shape& value = shapes[first + 2];
    if (query.size() < 3 || key.size() != query.size() || value.size() != query.size() || query.back() == 0) {
        return 0;
    }
    const std::uint64_t pairs = product(query) / query.back() * key[key.size() - 2];
    return 2 * pairs * (by_key * query.back() + by_value * value.back());
}

// The kernels that compute attention as a whole; their arguments are the output's gradient, query, key, value, ...
bool is_attention_backward(std::string_view name) {
    return name.starts_with("aten::_scaled_dot_product_") && name.ends_with("_backward");
}

}  // namespace

std::uint64_t convolution_flops(std::span<const std::int64_t> input, std::span<const std::int64_t> weight,
                                std::span<const std::int64_t> stride, std::span<const std::int64_t> padding,
                                std::span<const std::int64_t> dilation) {
    const auto at = [](std::span<const std::int64_t> values, std::size_t i) {
        return values.empty() ? 0 : values[std::min(i, values.size() - 1)];
    };
    if (input.size() < 3 || weight.size() != input.size()) {
        return 0;
    }
    std::int64_t flops = 2 * input[0] * weight[0] * weight[1];
    for (std::size_t i = 0; i + 2 < input.size(); ++i) {
        const std::int64_t kernel = weight[i + 2];
        const std::int64_t room = input[i + 2] + 2 * at(padding, i) - at(dilation, i) * (kernel - 1) - 1;
        if (at(stride, i) <= 0 || room < 0) {
            return 0;
        }
        flops *= (room / at(stride, i) + 1) * kernel;
    }
    return static_cast<std::uint64_t>(std::max<std::int64_t>(flops, 0));
}

std::uint64_t transposed_convolution_flops(std::span<const std::int64_t> input, std::span<const std::int64_t> weight) {
    const auto shape = [](std::span<const std::int64_t> sizes) { return Shape(sizes.begin(), sizes.end()); };
    return convolution(shape(input), shape(weight));
}

std::uint64_t counted_flops(const ProfileEvent& event) {
    if (event.shapes.empty()) {
        return 0;
    }
    if (event.name == "aten::convolution_backward") {
        return convolution_backward(shapes_of(event.shapes));
    }
    if (event.name == "aten::scaled_dot_product_attention") {
        return attention(shapes_of(event.shapes), 0, 1, 1);  // the scores, and their product with the values
    }
    // The scores once more, and the gradients of scores, query, key and value: 2.5 times the forward, as in the
    // FlashAttention papers and torch.utils.flop_counter.
    if (is_attention_backward(event.name)) {
        return attention(shapes_of(event.shapes), 1, 3, 2);
    }
    return 0;
}

std::vector<std::uint64_t> flops_of(const Profile& profile, std::span<const EventNode> nodes) {
    std::vector<std::uint64_t> flops(nodes.size());
    std::vector<bool> counted(nodes.size());  // this node or one that called it
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        const ProfileEvent& event = profile.events[nodes[i].event];
        if (nodes[i].parent != EventNode::kNone && counted[static_cast<std::size_t>(nodes[i].parent)]) {
            counted[i] = true;
            continue;
        }
        flops[i] = event.flops > 0 ? event.flops : counted_flops(event);
        counted[i] = flops[i] > 0;
    }
    return flops;
}

}  // namespace stoker
