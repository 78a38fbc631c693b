#include "stoker/models/graph_interpreter.h"

#include <ATen/ScalarOps.h>
#include <ATen/core/List.h>

#include <fmt/format.h>
#include <utility>

#include "stoker/base/error.h"

namespace stoker {
namespace {

using c10::IValue;
using Stack = std::vector<IValue>;

void require_count(std::string_view what, std::size_t expected, std::size_t got) {
    if (expected != got) {
        throw DataError({}, {.where = "model.export",
                             .expected = fmt::format("{} {} of a graph", expected, what),
                             .got = fmt::to_string(got)});
    }
}

// A number where an operator takes a tensor takes no part in the choice of the result's type.
void wrap_number(IValue& value) {
    if (!value.isTensor() && !value.isNone()) {
        at::Tensor tensor = c10::scalar_to_tensor(value.toScalar());
        tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
        value = std::move(tensor);
    }
}

class Run {
  public:
    explicit Run(std::size_t values) : values_(values) {}

    IValue& at(int value) { return values_[static_cast<std::size_t>(value)]; }

    void run(const GraphNode& node) {
        stack_.clear();
        for (const GraphArgument& argument : node.arguments) {
            stack_.push_back(value_of(argument));
            if (argument.is_tensor) {
                wrap_number(stack_.back());
            }
        }
        if (node.operation) {
            node.operation->callBoxed(stack_);
        } else {
            IValue result = node.arithmetic(stack_);
            stack_.clear();
            stack_.push_back(std::move(result));
        }
        require_count("results", node.results.size(), stack_.size());
        for (std::size_t i = 0; i < node.results.size(); ++i) {
            store(node.results[i], std::move(stack_[i]));
        }
        for (const int value : node.released) {
            at(value) = IValue();
        }
    }

  private:
    const IValue& item(const GraphItem& item) { return item.value < 0 ? item.constant : at(item.value); }

    template <typename Element, typename Read>
    IValue list_of(const GraphArgument& argument, const Read& read) {
        c10::List<Element> list;
        list.reserve(argument.items.size());
        for (const GraphItem& each : argument.items) {
            list.push_back(read(item(each)));
        }
        return list;
    }

    IValue value_of(const GraphArgument& argument) {
        switch (argument.kind) {
            case GraphArgument::Kind::single:
                return item(argument.items.front());
            case GraphArgument::Kind::ints:
                return list_of<std::int64_t>(argument, [](const IValue& value) { return value.toInt(); });
            case GraphArgument::Kind::tensors:
                return list_of<at::Tensor>(argument, [](const IValue& value) { return value.toTensor(); });
            case GraphArgument::Kind::optional_tensors:
                return list_of<std::optional<at::Tensor>>(
                    argument, [](const IValue& value) { return value.toOptional<at::Tensor>(); });
        }
        return {};
    }

    void store(const GraphResult& result, IValue value) {
        if (!result.is_list) {
            if (!result.values.empty()) {
                at(result.values.front()) = std::move(value);
            }
            return;
        }
        std::vector<at::Tensor> list = std::move(value).toTensorVector();
        require_count("tensors in a list", result.values.size(), list.size());
        for (std::size_t i = 0; i < list.size(); ++i) {
            at(result.values[i]) = std::move(list[i]);
        }
    }

    Stack values_;
    Stack stack_;
};

}  // namespace

std::vector<at::Tensor> run_graph(const GraphProgram& program, std::vector<at::Tensor> inputs) {
    require_count("inputs", program.inputs.size(), inputs.size());
    Run run(program.values);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        run.at(program.inputs[i]) = std::move(inputs[i]);
    }
    for (const auto& [value, tensor] : program.tensors) {
        run.at(value) = tensor;
    }
    for (const GraphNode& node : program.nodes) {
        run.run(node);
    }
    std::vector<at::Tensor> outputs;
    outputs.reserve(program.outputs.size());
    for (const int output : program.outputs) {
        outputs.push_back(run.at(output).toTensor());
    }
    return outputs;
}

}  // namespace stoker
