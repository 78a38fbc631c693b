// Counts the files that a folder of images holds but a data set leaves out, and says so in one line.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace stoker {

class LeftOut {
  public:
    // An image outside the class folders, so without a class. Files are added in the order of the listing; the first of
    // each reason is the example.
    void add_loose_image(const std::string& path) { add(loose_, path); }
    // An image of a type that no codec reads; counted by the end of its name.
    void add_unsupported_image(const std::string& path);
    // A file that is not an image.
    void add_other_file(const std::string& path) { add(other_, path); }

    std::int64_t unsupported_images() const;

    // "left out: 12 loose images beside the class folders (a.jpg, ...); 1 .psd file (cat/x.psd): convert to .png or
    // .jpg"; empty if nothing is left out.
    std::string text() const;

  private:
    struct Files {
        std::int64_t count = 0;
        std::string example = {};

        std::string text() const;  // "(a.jpg, ...)"
    };
    static void add(Files& files, const std::string& path);

    Files loose_;
    Files other_;
    std::map<std::string, Files> unsupported_;  // by extension, such as ".psd"
};

}  // namespace stoker
