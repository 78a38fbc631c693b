// The c10d objects of a group of several ranks. The headers are heavy: only this folder's .cpp files include them.
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
    c10::intrusive_ptr<c10d::ProcessGroup> group;  // wraps gloo
    c10::intrusive_ptr<c10d::Work> pending = {};   // the reduction of the last delayed_max()
    std::vector<at::Tensor> pending_value = {};    // one int32 scalar
    std::string address = {};                      // of this host, for the other ranks; empty: c10d chooses
    bool store_lost = false;                       // it did not answer in time
    // All that were made; each has its own keys in the store. They are connected until the group is left, so that a
    // failing rank says why before the others miss it.
    std::vector<std::shared_ptr<Group>> subgroups = {};

    void close() {
        for (const std::shared_ptr<Group>& subgroup : subgroups) {
            if (subgroup->backend_) {
                subgroup->backend_->close();
            }
        }
        pending.reset();
        group.reset();
        gloo.reset();
    }
};

}  // namespace stoker
