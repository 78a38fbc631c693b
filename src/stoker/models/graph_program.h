// A plain graph of a .pt2 file as calls of LibTorch's operators on numbered values.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "stoker/io/zip.h"
#include "stoker/models/size_arithmetic.h"

namespace stoker {

// A value of the graph, or a constant.
struct GraphItem {
    int value = -1;  // its number; -1: the constant
    c10::IValue constant = {};
};

struct GraphArgument {
    enum class Kind : std::uint8_t { single, ints, tensors, optional_tensors };

    Kind kind = Kind::single;
    std::vector<GraphItem> items = {};  // one of `single`
    bool is_tensor = false;             // the operator takes a tensor here: a number is wrapped, as Python does
};

struct GraphResult {
    bool is_list = false;
    std::vector<int> values = {};  // one unless it is a list; none: the result is dropped
};

struct GraphNode {
    std::optional<c10::OperatorHandle> operation = {};  // empty: `arithmetic`
    SizeFunction arithmetic = nullptr;
    std::vector<GraphArgument> arguments = {};
    std::vector<GraphResult> results = {};
    std::vector<int> released = {};  // values that no later node reads
};

struct GraphProgram {
    std::size_t values = 0;                                // how many there are
    std::vector<int> inputs = {};                          // of the caller, in their order
    std::vector<std::pair<int, at::Tensor>> tensors = {};  // of the graph itself
    std::vector<GraphNode> nodes = {};                     // each reads values of inputs, tensors and earlier nodes
    std::vector<int> outputs = {};                         // tensors
};

// Reads the graph `name` of a file that require_plain_graphs (formats/pt2/pt2_check.h) has accepted. Tensors that the
// file has on a device of the same type as `device` go to that one. Throws DataError for a damaged graph, and
// Unsupported for operators and arguments that this LibTorch does not have.
GraphProgram read_graph_program(const ZipFile& zip, const std::string& name, const at::Device& device);

}  // namespace stoker
