# Writes SOURCE, the table of settings, as OUT with one row more, which tests/python/test_py_settings.py looks for.
file(READ ${SOURCE} table)
set(old "flag(\"data.exif\",")
set(new "flag(\"data.made_up\", at(&DataRecipe::exif), \"a setting of a test\")
            .in_python({.type = \"bool\", .of = Of::opened}),
        ")
string(REPLACE "${old}" "${new}${old}" made_up "${table}")
file(WRITE ${OUT} "${made_up}")
