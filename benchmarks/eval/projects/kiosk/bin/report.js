import { Command } from 'commander'

const program = new Command()
program
  .name('report')
  .option('-d, --day <date>', 'which day', new Date().toISOString().slice(0, 10))
  .option('--no-color', 'plain text')
  .requiredOption('-u, --url <url>', 'where the shop runs')
  .action(async ({ day, url }) => {
    const reply = await fetch(`${url}/sold/${day}`)
    for (const [kind, count] of Object.entries(await reply.json())) {
      console.log(`${kind}\t${count}`)
    }
  })

await program.parseAsync()
