// A terminal that is drawn as a whole, by ncurses. The destructor restores it, whatever ended the program's work.
#pragma once

#include <optional>
#include <span>

#include "cli/top/screen_line.h"

namespace stoker::cli {

// True if the locale's characters are UTF-8. Sets the program's LC_CTYPE to that of the environment.
bool shows_blocks();

class FullScreen {
  public:
    // Throws InvalidArgument unless stdin and stdout are a terminal that ncurses knows.
    FullScreen();
    FullScreen(const FullScreen&) = delete;
    FullScreen& operator=(const FullScreen&) = delete;
    ~FullScreen();

    int columns() const;
    int rows() const;
    void draw(std::span<const ScreenLine> lines);

    // Waits for a key, at most `seconds`. Empty if none came, also after a signal; kResize if the terminal changed its
    // size.
    std::optional<int> key(double seconds);
    static constexpr int kResize = -1;

  private:
    void* screen_;  // ncurses' SCREEN
};

}  // namespace stoker::cli
