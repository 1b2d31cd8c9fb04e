// The client of the TypeScript SDK, 2.x (`@modelcontextprotocol/client`). It speaks the older
// protocol unless `mode` is `auto`.

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { asked, obey, server, transportOf } from './remote.mjs'

const transport = transportOf(StreamableHTTPClientTransport, StdioClientTransport)
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
