#include "engine/ranks.h"

#include <csignal>
#include <exception>
#include <fmt/format.h>

#include "cli/terminal/print.h"
#include "stoker/base/error.h"
#include "stoker/dist/world.h"

namespace stoker::cli {

int run_in_group(const std::function<int(const std::shared_ptr<Group>&)>& work) {
    const std::shared_ptr<Group> group = join_group([](const std::string& line) { print_stderr("{}\n", line); });
    if (!group->alone()) {
        std::signal(SIGPIPE, SIG_IGN);  // a closed connection or stdout is an error of one rank, not its end
    }
    try {
        return work(group);
    } catch (const RankLost&) {
        group->leave("");
        throw;
    } catch (const std::exception& error) {
        if (!group->leave(error.what())) {
            return 1;  // another rank prints the same error
        }
        throw;
    }
}

void require_one_rank(const std::string& command) {
    if (const World world = read_world(); world.size > 1) {
        throw InvalidArgument({.where = command,
                               .expected = "one process, which measures what one process trains",
                               .got = fmt::format("{} ranks (WORLD_SIZE)", world.size),
                               .hint = "start it without `stoker launch`"});
    }
}

}  // namespace stoker::cli
