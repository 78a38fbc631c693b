// The ranks that train one model together, and what they say to each other apart from gradients. All ranks make the
// same calls in the same order. In a group of one nothing is started and every call gives back what it was given. A
// process has one group at a time: c10d keeps things for the whole process.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "stoker/base/error.h"
#include "stoker/dist/world.h"

namespace stoker {

// Another rank has ended, or does not answer.
class RankLost : public Error {
    using Error::Error;
};

class Group {
  public:
    Group();  // of one
    // Waits for all ranks. Throws RankLost where they do not come.
    explicit Group(const World& world);
    Group(const Group&) = delete;
    Group& operator=(const Group&) = delete;
    ~Group();

    int rank() const { return world_.rank; }
    int size() const { return world_.size; }
    bool alone() const { return world_.size == 1; }
    bool first() const { return world_.rank == 0; }

    // All of these throw RankLost.
    void all_reduce(std::span<double> values) const;      // over the ranks, in place
    at::Tensor all_gather(const at::Tensor& mine) const;  // of one shape on all ranks: (size(), shape...)
    std::vector<std::string> all_gather(const std::string& mine) const;
    void broadcast(const std::vector<at::Tensor>& tensors) const;  // makes them rank 0's
    std::string broadcast(const std::string& text) const;          // rank 0's
    void barrier() const;                                          // waits for all, ten times as long as the others do

    // The largest number that any rank gave at its call before: what is on its way while a step runs costs it nothing.
    // At once in a group of one.
    int agree(int mine);
    // Forgets what was given to `agree` so far.
    void agree_anew();

    // For when this rank fails, and communicates no more. What a rank has told can be read until the group is gone; a
    // rank that does not answer has told nothing. None of these throws.
    void tell(const std::string& text) const;
    std::vector<std::string> told() const;  // by all ranks, "" of those that told nothing
    // The last call: closes the connections, so that the others notice at once, and says why; empty where another rank
    // was lost. False where another has said the same before.
    bool leave(const std::string& why);

    // Calls `work`, which communicates through LibTorch; a lost rank is a RankLost.
    template <typename Work>
    void guard(Work&& work) const {
        try {
            work();
        } catch (const Error&) {
            throw;
        } catch (const std::exception& error) {
            explain(error);
            throw;
        }
    }

    struct Backend;  // backend.h
    const Backend& backend() const { return *backend_; }

  private:
    void explain(const std::exception& error) const;

    World world_;
    std::unique_ptr<Backend> backend_;
};

// The group that the environment asks for.
std::shared_ptr<Group> join_group();

}  // namespace stoker
