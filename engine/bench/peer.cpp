// What can be missing is looked for before the first of our own rounds.
#include "engine/bench/peer.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "cli/terminal/child.h"
#include "stoker/base/error.h"

namespace stoker::cli {
namespace {

namespace fs = std::filesystem;

bool is_program(const fs::path& path) {
    std::error_code unknown;
    return fs::is_regular_file(path, unknown) && access(path.c_str(), X_OK) == 0;
}

// As posix_spawnp looks: a name without a slash is searched for on PATH.
bool can_be_run(const std::string& program) {
    if (program.find('/') != std::string::npos) {
        return is_program(program);
    }
    const char* path = std::getenv("PATH");
    std::istringstream folders(path != nullptr ? path : "/bin:/usr/bin");
    for (std::string folder; std::getline(folders, folder, ':');) {
        if (!program.empty() && is_program(fs::path(folder.empty() ? "." : folder) / program)) {
            return true;
        }
    }
    return false;
}

}  // namespace

void check_peer(const Peer& peer) {
    if (!can_be_run(peer.python)) {
        throw IoError({.where = peer.python,
                       .expected = "a Python interpreter for --peer",
                       .got = "no such program",
                       .hint = "pass --python with one that has torch and torchvision"});
    }
    std::error_code unknown;
    if (!fs::is_regular_file(peer.script, unknown)) {
        throw IoError({.where = peer.script,
                       .expected = "the script of --peer",
                       .got = "no such file",
                       .hint = "pass --peer-script with the one of that name of Stoker's source folder"});
    }
}

nlohmann::json ask_peer(const Peer& peer, const std::vector<std::string>& arguments, const std::atomic<int>& stop) {
    std::vector<std::string> command = {peer.python, peer.script};
    command.insert(command.end(), arguments.begin(), arguments.end());
    const std::string text = run_child(command, stop);
    auto document = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!document.is_object()) {
        throw Error({.where = peer.script, .expected = "a JSON document", .got = text.substr(0, 80)});
    }
    return document;
}

}  // namespace stoker::cli
