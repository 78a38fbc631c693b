// What a group of several ranks is made of: c10d's heavy headers, for this folder's .cpp files alone.
#pragma once

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "stoker/dist/group.h"

namespace stoker {

struct Group::Backend {
    c10::intrusive_ptr<c10d::Store> store;
    c10::intrusive_ptr<c10d::ProcessGroupGloo> gloo;
    c10::intrusive_ptr<c10d::ProcessGroup> group;  // around gloo
    c10::intrusive_ptr<c10d::Work> vote = {};      // of agree(), on its way
    std::vector<at::Tensor> voted = {};
    bool silent = false;  // the store did not answer
};

}  // namespace stoker
