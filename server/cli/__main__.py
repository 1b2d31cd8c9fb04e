from server.cli.commands import main

main()
