// Graphs of .pt2 files: each kind of argument and result, and files that name what is not there.
#include "stoker/models/graph_interpreter.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <string>
#include <utility>
#include <vector>

#include "formats/pt2/pt2_support.h"
#include "stoker/base/error.h"
#include "stoker/formats/pt2/pt2_check.h"

namespace stoker {
namespace {

using namespace testing;
using ::testing::HasSubstr;

std::string tensor(const std::string& name) {
    return fmt::format(R"({{"as_tensor": {{"name": "{}"}}}})", name);
}

std::string node(const std::string& target, const std::vector<std::string>& inputs,
                 const std::vector<std::string>& outputs) {
    return fmt::format(R"({{"target": "{}", "inputs": [{}], "outputs": [{}], "metadata": {{}}}})", target,
                       fmt::join(inputs, ", "), fmt::join(outputs, ", "));
}

std::string input(const std::string& name, const std::string& argument) {
    return fmt::format(R"({{"name": "{}", "arg": {}}})", name, argument);
}

// A graph of the input x and the file's w, which is 2 x 3 floats from 0 to 5; it returns y.
std::string graph_of(const std::vector<std::string>& nodes) {
    std::string graph = pt2_graph();
    const std::size_t begin = graph.find(R"("nodes": [)") + 10;
    const std::size_t end = graph.find(R"(], "tensor_values")");
    return graph.replace(begin, end - begin, fmt::format("{}", fmt::join(nodes, ", ")));
}

GraphProgram program_of(const std::vector<std::string>& nodes) {
    std::string numbers;
    for (const float number : {0.f, 1.f, 2.f, 3.f, 4.f, 5.f}) {
        numbers.append(reinterpret_cast<const char*>(&number), sizeof number);
    }
    const std::string file =
        zip(pt2_members({{"net/models/train.json", graph_of(nodes)}, {"net/data/weights/weight_0", numbers}}));
    const ZipFile archive(as_bytes(file));
    require_plain_graphs(archive);
    return read_graph_program(archive, "train", at::kCPU);
}

at::Tensor result_of(const std::vector<std::string>& nodes, const at::Tensor& x) {
    return run_graph(program_of(nodes), {x}).at(0);
}

const at::Tensor kW = at::arange(6, at::kFloat).view({2, 3});

TEST(GraphInterpreter, TakesTensorsNumbersAndDefaults) {
    const at::Tensor x = at::ones({2, 3});
    const auto with = [&](const std::string& target, const std::string& other, const std::string& more = "") {
        std::vector<std::string> inputs = {input("self", tensor("x")), input("other", other)};
        if (!more.empty()) {
            inputs.push_back(input("alpha", more));
        }
        return result_of({node(target, inputs, {tensor("y")})}, x);
    };
    EXPECT_TRUE(with("torch.ops.aten.add.Tensor", tensor("w")).equal(x + kW));
    EXPECT_TRUE(with("torch.ops.aten.add.Tensor", tensor("w"), R"({"as_int": 3})").equal(x + 3 * kW));
    EXPECT_TRUE(with("torch.ops.aten.add.Tensor", R"({"as_float": 0.5})").equal(x + 0.5));
    EXPECT_TRUE(with("torch.ops.aten.mul.Scalar", R"({"as_float": "Infinity"})").isinf().all().item<bool>());
    // A number does not change the type.
    const at::Tensor halves = at::ones({2, 3}, at::kHalf);
    EXPECT_EQ(result_of({node("torch.ops.aten.add.Tensor",
                              {input("self", tensor("x")), input("other", R"({"as_float": 1.5})")}, {tensor("y")})},
                        halves)
                  .scalar_type(),
              at::kHalf);
}

TEST(GraphInterpreter, TakesListsAndSizes) {
    const at::Tensor x = at::arange(6, at::kFloat).view({2, 3}) + 10;
    const std::string size = R"({"as_sym_int": {"as_name": "s"}})";
    const std::string twice = R"({"as_sym_int": {"as_name": "t"}})";
    const std::vector<std::string> doubled = {
        node("torch.ops.aten.sym_size.int", {input("self", tensor("x")), input("dim", R"({"as_int": 0})")}, {size}),
        node("_operator.mul", {input("", size), input("", R"({"as_int": 2})")}, {twice}),
        node("torch.ops.aten.cat.default", {input("tensors", R"({"as_tensors": [{"name": "x"}, {"name": "w"}]})")},
             {tensor("both")}),
        node("torch.ops.aten.view.default",
             {input("self", tensor("both")), input("size", R"({"as_sym_ints": [{"as_name": "t"}, {"as_int": 3}]})")},
             {tensor("y")})};
    EXPECT_TRUE(result_of(doubled, x).equal(at::cat({x, kW})));
    const std::vector<std::string> parts = {
        node("torch.ops.aten.split.Tensor", {input("self", tensor("x")), input("split_size", R"({"as_int": 1})")},
             {R"({"as_tensors": [{"name": "first"}, {"name": "second"}]})"}),
        node("torch.ops.aten.sub.Tensor", {input("self", tensor("second")), input("other", tensor("first"))},
             {tensor("y")})};
    EXPECT_TRUE(result_of(parts, x).equal(at::full({1, 3}, 3)));
    const std::vector<std::string> indexed = {
        node("torch.ops.aten.to.dtype", {input("self", tensor("w")), input("dtype", R"({"as_scalar_type": 5})")},
             {tensor("places")}),
        node("torch.ops.aten.select.int",
             {input("self", tensor("places")), input("dim", R"({"as_int": 0})"), input("index", R"({"as_int": 0})")},
             {tensor("row")}),
        node("torch.ops.aten._unsafe_index.Tensor",
             {input("self", tensor("x")),
              input("indices", R"({"as_optional_tensors": [{"as_none": true}, {"as_tensor": {"name": "row"}}]})")},
             {tensor("y")})};
    EXPECT_TRUE(result_of(indexed, x).equal(x));
    const std::vector<std::string> pooled = {node("torch.ops.aten.max.dim",
                                                  {input("self", tensor("x")), input("dim", R"({"as_int": 1})")},
                                                  {tensor("y"), R"({"as_none": true})"})};
    EXPECT_TRUE(result_of(pooled, x).equal(std::get<0>(x.max(1))));
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
}

TEST(GraphInterpreter, TensorsAreStoredInFull) {
    const auto reads = [](const std::string& config, std::size_t bytes = 24) {
        const std::string file = zip(pt2_members({{"net/data/weights/train_weights_config.json", config},
                                                  {"net/data/weights/weight_0", std::string(bytes, '\0')}}));
        try {
            read_graph_program(ZipFile(as_bytes(file)), "train", at::kCPU);
        } catch (const std::exception&) {  // LibTorch checks the bounds
            return false;
        }
        return true;
    };
    const std::string config = pt2_config();
    EXPECT_TRUE(reads(config));
    EXPECT_TRUE(reads(replaced(config, R"([{"as_int": 2}, )", R"([{"as_int": 0}, )")));
    EXPECT_FALSE(reads(config, 20));
    for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
             {R"([{"as_int": 2}, {"as_int": 3}])", R"([{"as_int": 2000}, {"as_int": 3}])"},
             {R"([{"as_int": 3},{"as_int": 1}])", R"([{"as_int": 4}, {"as_int": 1}])"},
             {R"([{"as_int": 3},{"as_int": 1}])", R"([{"as_int": 18446744073709551615}, {"as_int": 1}])"},
             {R"([{"as_int": 3},{"as_int": 1}])", R"([{"as_int": 4611686018427387904}, {"as_int": 1}])"},
             {R"([{"as_int": 3},{"as_int": 1}])", R"([{"as_int": -3}, {"as_int": 1}])"},
             {R"([{"as_int": 3},{"as_int": 1}])", R"([{"as_int": 1}])"},
             {R"("storage_offset": {"as_int": 0})", R"("storage_offset": {"as_int": 1})"},
             {R"("storage_offset": {"as_int": 0})", R"("storage_offset": {"as_int": -1})"},
             {R"("dtype": 7)", R"("dtype": 8)"},
             {R"("dtype": 7)", R"("dtype": 99)"},
             {R"([{"as_int": 2}, )", R"([{"as_expr": "s0"}, )"},
             {R"("weight_0")", R"("weight_1")"},
             {R"("c": {)", R"("d": {)"}}) {
        EXPECT_FALSE(reads(replaced(config, from, to))) << to;
    }
}

TEST(GraphInterpreter, ReleasesValuesAfterTheirLastUse) {
    const GraphProgram program = program_of(
        {node("torch.ops.aten.neg.default", {input("self", tensor("x"))}, {tensor("a")}),
         node("torch.ops.aten.neg.default", {input("self", tensor("a"))}, {tensor("unused")}),
         node("torch.ops.aten.add.Tensor", {input("self", tensor("a")), input("other", tensor("w"))}, {tensor("y")})});
    EXPECT_EQ(program.nodes[0].released.size(), 1U);  // x
    EXPECT_EQ(program.nodes[1].released.size(), 1U);  // unused
    EXPECT_EQ(program.nodes[2].released.size(), 2U);  // a, w
    EXPECT_EQ(program.values, 5U);
}

TEST(GraphInterpreter, WholeNumbersStandForRealOnes) {
    const std::vector<std::string> enlarged = {
        node("torch.ops.aten.reshape.default",
             {input("self", tensor("x")), input("shape", R"({"as_ints": [1, 1, 2, 3]})")}, {tensor("image")}),
        node("torch.ops.aten.upsample_nearest2d.vec",
             {input("input", tensor("image")), input("output_size", R"({"as_none": true})"),
              input("scale_factors", R"({"as_ints": [2, 3]})")},
             {tensor("y")})};
    EXPECT_EQ(result_of(enlarged, kW).sizes(), at::IntArrayRef({1, 1, 4, 9}));
}

TEST(GraphInterpreter, RefusesWhatIsNotThere) {
    const auto refusal = [](const std::vector<std::string>& nodes) -> std::string {
        try {
            run_graph(program_of(nodes), {at::ones({2, 3})});
        } catch (const Error& error) {
            return error.what();
        }
        return "";
    };
    const auto add = [](const std::string& self, const std::string& output) {
        return node("torch.ops.aten.add.Tensor", {input("self", self), input("other", tensor("w"))}, {output});
    };
    EXPECT_THAT(refusal({add(tensor("later"), tensor("y"))}), HasSubstr("\"later\" of an earlier node, got none"));
    EXPECT_THAT(refusal({add(tensor("x"), tensor("x"))}), HasSubstr("\"x\" twice"));
    EXPECT_THAT(refusal({add(tensor("x"), tensor("z"))}), HasSubstr("\"y\" of an earlier node, got none"));
    EXPECT_THAT(refusal({add(R"({"as_sym_int": {"as_name": "x"}})", tensor("y"))}), HasSubstr("another kind"));
    EXPECT_THAT(refusal({node("torch.ops.aten.add.nothing", {}, {tensor("y")})}), HasSubstr("aten.add.nothing"));
    EXPECT_THAT(refusal({node("torch.ops.aten.add.Tensor", {input("self", tensor("x"))}, {tensor("y")})}),
                HasSubstr("an argument other"));
    EXPECT_THAT(refusal({node("torch.ops.aten.neg.default",
                              {input("self", tensor("x")), input("new", R"({"as_int": 1})")}, {tensor("y")})}),
                HasSubstr("got \"new\""));
    EXPECT_THAT(refusal({node("torch.ops.aten.neg.default", {input("self", tensor("x"))},
                              {tensor("y"), R"({"as_none": true})"})}),
                HasSubstr("2 results"));
    const auto zeros = [](const std::string& name, const std::string& argument) {
        return node("torch.ops.aten.zeros.default", {input("size", R"({"as_ints": [2]})"), input(name, argument)},
                    {tensor("y")});
    };
    EXPECT_EQ(refusal({zeros("dtype", R"({"as_scalar_type": 5})")}), "");
    EXPECT_THAT(refusal({zeros("dtype", R"({"as_int": 200})")}), HasSubstr("as_scalar_type"));
    EXPECT_THAT(refusal({zeros("layout", R"({"as_int": 1})")}), HasSubstr("as_layout"));
    EXPECT_THAT(refusal({add(R"({"as_sym_int": {}})", tensor("y"))}), HasSubstr("an object with one key"));
    EXPECT_THAT(refusal({add(R"({"as_optional_tensor": {}})", tensor("y"))}), HasSubstr("an object with one key"));
    EXPECT_THAT(refusal({add(R"({"as_graph": {"name": "g", "graph": {}}})", tensor("y"))}), HasSubstr("as_graph"));
    EXPECT_THROW(run_graph(program_of({add(tensor("x"), tensor("y"))}), {}), DataError);
}

}  // namespace
}  // namespace stoker
