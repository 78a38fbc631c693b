// A command's treatment of several ranks: it trains with them, or refuses them.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "stoker/dist/group.h"

namespace stoker::cli {

// Joins the group that the environment names and runs `work`, which returns the exit status. An error of one rank ends
// all; one of them prints it.
int run_in_group(const std::function<int(const std::shared_ptr<Group>&)>& work);

// Throws InvalidArgument if the environment names several ranks. `command`: "stoker tune".
void require_one_rank(const std::string& command);

}  // namespace stoker::cli
