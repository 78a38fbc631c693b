# cmake -DSOURCE=x.cu -DOUT=x.cpp -P translate.cmake: CUDA as C++. A launch becomes a call of stoker::on_cpu::launch, and
# a variable in shared memory a reference into the block's. Lines keep their numbers.
file(READ ${SOURCE} text)
string(REGEX REPLACE "([A-Za-z_][A-Za-z0-9_]*(<[^<>;()]*>)?)([ \n]*)<<<([^<>]*)>>>" "stoker::on_cpu::launch(\\1, \\4)\\3"
  text "${text}")
string(REGEX REPLACE "__shared__ ([A-Za-z0-9_:]+) ([A-Za-z0-9_]+)([^;=\n]*);"
  "auto& \\2 = stoker::on_cpu::shared<\\1 \\3, __COUNTER__>();" text "${text}")
if(text MATCHES "__shared__|<<<")
  message(FATAL_ERROR "${SOURCE}: expected launches and shared variables that translate.cmake knows, found another")
endif()
file(WRITE ${OUT} "#line 1 \"${SOURCE}\"\n${text}")
