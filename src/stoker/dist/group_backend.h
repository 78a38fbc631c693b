// The c10d objects of a group of several ranks. The headers are heavy: only this folder's .cpp files include them.
#pragma once

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "stoker/dist/group.h"
#include "stoker/dist/nccl.h"

namespace stoker {

class Heartbeat;

struct Group::Backend {
    c10::intrusive_ptr<c10d::Store> store;
    std::shared_ptr<Heartbeat> heartbeat = {};  // of the group of all ranks; sub-groups share it
    c10::intrusive_ptr<c10d::ProcessGroupGloo> gloo;
    c10::intrusive_ptr<c10d::ProcessGroup> group;  // wraps both
    NcclBackend nccl = {};                         // for tensors on `device`; null: Gloo sends those as well
    // For messages to lower ranks: on one connection NCCL finishes a message before it begins the next, so two ranks
    // that send to each other would wait for ever.
    NcclBackend nccl_down = {};
    std::string why_gloo = {};                    // why tensors on `device` do not go through NCCL
    at::Device device = at::kCPU;                 // of this rank's tensors
    c10::intrusive_ptr<c10d::Work> pending = {};  // the reduction of the last delayed_max()
    std::vector<at::Tensor> pending_value = {};   // one int32 scalar
    std::string address = {};                     // of this host, for the other ranks; empty: c10d chooses
    bool store_lost = false;                      // it did not answer in time
    bool given_up = false;                        // a barrier was, before its time-out
    // All that were made; each has its own keys in the store. They are connected until the group is left, so that a
    // failing rank says why before the others miss it.
    std::vector<std::shared_ptr<Group>> subgroups = {};

    // What moves a tensor. Numbers and texts of the host always go through Gloo.
    c10d::Backend& of(const at::Tensor& tensor) const {
        return nccl && tensor.device() == device ? *nccl : static_cast<c10d::Backend&>(*gloo);
    }
    c10d::Backend& of_message(const at::Tensor& tensor, int from, int to) const {
        c10d::Backend& found = of(tensor);
        return nccl && &found == nccl.get() && to < from ? *nccl_down : found;
    }

    // Ends what is under way on GPUs, in this group and in all below it, before any of them is waited for: the streams
    // of one may wait for those of another. Collectives whose results were read are complete on all ranks.
    void abort() noexcept {
        for (const std::shared_ptr<Group>& subgroup : subgroups) {
            if (subgroup->backend_) {
                subgroup->backend_->abort();
            }
        }
        for (const NcclBackend& connection : {nccl, nccl_down}) {
            try {
                if (connection) {
                    connection->abort();
                }
            } catch (const std::exception&) {  // it is given up, whatever it says
            }
        }
    }

    void close() {
        abort();
        for (const std::shared_ptr<Group>& subgroup : subgroups) {
            if (subgroup->backend_) {
                subgroup->backend_->close();
            }
        }
        heartbeat.reset();
        if (given_up) {  // Gloo would wait for the rest of the time-out; the connections end with the process
            static_cast<void>(gloo.release());
            static_cast<void>(group.release());
            return;
        }
        pending.reset();
        group.reset();
        nccl.reset();
        nccl_down.reset();
        gloo.reset();
    }
};

}  // namespace stoker
