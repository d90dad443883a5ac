#include "app/cli/commands.h"

int main(int argc, char** argv) { return fewbit::cli::main(argc, argv); }
