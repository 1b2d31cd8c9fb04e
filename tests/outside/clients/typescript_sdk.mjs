// The client of the TypeScript SDK, 2.x (`@modelcontextprotocol/client`). It speaks the older
// protocol unless `mode` is `auto`.

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { asked, obey, server } from './remote.mjs'

const [command, ...args] = server.command ?? []
const requestInit = { headers: { Authorization: `Bearer ${server.token}` } }
const transport = server.url
  ? new StreamableHTTPClientTransport(new URL(server.url), { requestInit })
  : new StdioClientTransport({ command, args, env: server.env })
const client = new Client(
  { name: 'test', version: '1' },
  {
    capabilities: { elicitation: {} },
    versionNegotiation: { mode: server.mode ?? 'legacy' }
  }
)
client.setRequestHandler('elicitation/create', asked)
await client.connect(transport)
const { tools } = await client.listTools()
client.call = (params, options) => client.callTool(params, options)
await obey(client, tools)
