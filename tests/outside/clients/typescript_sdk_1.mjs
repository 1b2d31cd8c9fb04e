// The client of the TypeScript SDK, 1.x (`@modelcontextprotocol/sdk`).

import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js'
import { asked, obey, transportOf } from './remote.mjs'

const transport = transportOf(StreamableHTTPClientTransport, StdioClientTransport)
const client = new Client(
  { name: 'test', version: '1' },
  { capabilities: { elicitation: {} } }
)
client.setRequestHandler(ElicitRequestSchema, asked)
await client.connect(transport)
const { tools } = await client.listTools()
client.call = (params, options) => client.callTool(params, undefined, options)
await obey(client, tools)
