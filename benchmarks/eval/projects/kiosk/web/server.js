// The shop: takes tickets from the counters and tells what was sold.
import Fastify from 'fastify'
import { settings } from './settings.js'
import { addTicket, countTickets } from './store.js'

export function build () {
  const app = Fastify({
    logger: settings.verbose,
    bodyLimit: 262144,
    requestTimeout: 9000
  })

  app.addHook('onRequest', async (request, reply) => {
    if (request.headers['x-counter-key'] !== settings.counterKey) {
      return reply.code(403).send({ error: 'unknown counter' })
    }
  })

  app.post('/tickets', async (request, reply) => {
    const added = addTicket(request.body)
    return reply.code(added ? 201 : 409).send({ added })
  })

  app.get('/sold/:day', async (request) => countTickets(request.params.day))
  return app
}

if (process.argv[1]?.endsWith('server.js')) {
  await build().listen({ port: settings.port, host: '127.0.0.1' })
}
