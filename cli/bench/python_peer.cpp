#include "cli/bench/python_peer.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/terminal/subprocess.h"
#include "stoker/base/error.h"
#include "stoker/base/json_depth.h"

namespace stoker::cli {
void require_peer_script(const std::string& script, const std::string& option) {
    std::error_code unknown;
    if (!std::filesystem::is_regular_file(script, unknown)) {
        throw IoError({.where = script,
                       .expected = "a script of bench/peers in Stoker's source folder",
                       .got = "no such file",
                       .hint = "pass " + option});
    }
}

void check_python_peer(const PythonPeer& peer) {
    try {
        const std::atomic<int> never = 0;
        run_subprocess({peer.python, "--version"}, never);
    } catch (const IoError&) {
        throw IoError({.where = peer.python,
                       .expected = "a Python interpreter for --peer",
                       .got = "no such program",
                       .hint = "pass --python with one that has torch and torchvision"});
    }
    require_peer_script(peer.script, "--peer-script");
}

nlohmann::json run_python_peer(const PythonPeer& peer, const std::vector<std::string>& arguments,
                               const std::atomic<int>& stop) {
    std::vector<std::string> command = {peer.python, peer.script};
    command.insert(command.end(), arguments.begin(), arguments.end());
    const std::string text = run_subprocess(command, stop);
    auto document = parse_json<nlohmann::json>(text);
    if (!document.is_object()) {
        throw Error({.where = peer.script, .expected = "a JSON document", .got = text.substr(0, 80)});
    }
    return document;
}

}  // namespace stoker::cli
