// The block is one autograd node. Its parameters are inputs of the node, so the outer backward pass accumulates their
// gradients like any others, and the node runs even if the block's input needs no gradient.
#include "stoker/models/gradient_checkpointing.h"

#include <ATen/autocast_mode.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

namespace stoker {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct AutocastState {
    at::DeviceType device;
    bool enabled;
    at::ScalarType type;
    bool cache;
};

AutocastState autocast_state(at::DeviceType device) {
    return {.device = device,
            .enabled = at::autocast::is_autocast_enabled(device),
            .type = at::autocast::get_autocast_dtype(device),
            .cache = at::autocast::is_autocast_cache_enabled()};
}

void set_autocast(const AutocastState& state) {
    at::autocast::set_autocast_enabled(state.device, state.enabled);
    at::autocast::set_autocast_dtype(state.device, state.type);
    at::autocast::set_autocast_cache_enabled(state.cache);
}

// Sets the autocast state for a scope, without the cache: a cached weight that was cast without recording gradients
// would have no gradient in a scope that records them.
class AutocastAs {
  public:
    explicit AutocastAs(AutocastState state) : before_(autocast_state(state.device)) {
        state.cache = false;
        set_autocast(state);
    }
    AutocastAs(const AutocastAs&) = delete;
    AutocastAs& operator=(const AutocastAs&) = delete;
    ~AutocastAs() { set_autocast(before_); }

  private:
    AutocastState before_;
};

// Constants for the backward pass: the block's forward pass and its autocast settings.
struct Block : torch::CustomClassHolder {
    Block(BlockForward pass, const AutocastState& state) : forward(std::move(pass)), autocast(state) {}
    BlockForward forward;
    AutocastState autocast;
    variable_list trained;  // the parameters with gradients
};

constexpr const char* kBlock = "block";

struct Checkpointed : torch::autograd::Function<Checkpointed> {
    // `inputs` are the block's input and its trained parameters.
    static at::Tensor forward(AutogradContext* context, at::TensorList inputs, const c10::intrusive_ptr<Block>& block) {
        context->saved_data[kBlock] = c10::IValue::make_capsule(block);
        context->save_for_backward({inputs[0]});
        const AutocastAs autocast(block->autocast);
        return block->forward(inputs[0], false);
    }

    static variable_list backward(AutogradContext* context, const variable_list& gradients) {
        const auto block = c10::static_intrusive_pointer_cast<Block>(context->saved_data[kBlock].toCapsule());
        const bool input_trains = context->needs_input_grad(0);
        const at::Tensor input = context->get_saved_variables()[0].detach().requires_grad_(input_trains);
        variable_list needed = block->trained;
        if (input_trains) {
            needed.insert(needed.begin(), input);
        }
        at::Tensor output;
        {
            const c10::AutoGradMode record(true);
            const AutocastAs autocast(block->autocast);
            output = block->forward(input, true);
        }
        variable_list found = torch::autograd::grad({output}, needed, gradients);
        if (!input_trains) {
            found.insert(found.begin(), at::Tensor());
        }
        found.emplace_back();  // the argument `block` has none
        return found;
    }
};

}  // namespace

at::Tensor gradient_checkpoint(const BlockForward& block, const at::Tensor& input,
                               const std::vector<at::Tensor>& parameters) {
    const auto saved = c10::make_intrusive<Block>(block, autocast_state(input.device().type()));
    std::ranges::copy_if(parameters, std::back_inserter(saved->trained), &at::Tensor::requires_grad);
    if (!c10::GradMode::is_enabled() || (saved->trained.empty() && !input.requires_grad())) {
        return block(input, false);
    }
    variable_list inputs = saved->trained;
    inputs.insert(inputs.begin(), input);
    return Checkpointed::apply(at::TensorList(inputs), saved);
}

}  // namespace stoker
