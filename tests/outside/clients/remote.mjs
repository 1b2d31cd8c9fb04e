// A client that does what it is told; remote.py says how. `limit_s` is reset by progress if the
// call says `reset`.

import { createInterface } from 'node:readline'

export const server = JSON.parse(process.argv[2])

// The way to the server, of one of these two classes of the SDK.
export function transportOf(Http, Stdio) {
  const [command, ...args] = server.command ?? []
  const requestInit = { headers: { Authorization: `Bearer ${server.token}` } }
  return server.url
    ? new Http(new URL(server.url), { requestInit })
    : new Stdio({ command, args, env: server.env })
}

export const say = (said) => console.log(JSON.stringify(said))

export const asked = async ({ params }) => {
  say({ asked: params.message })
  return { action: 'accept', content: { approve: true } }
}

export async function obey(client, tools) {
  say({ tools: tools.map(({ name }) => name) })
  let stop
  for await (const line of createInterface({ input: process.stdin })) {
    const wanted = JSON.parse(line)
    if (wanted === 'cancel') {
      stop.abort('the user gave up')
    } else {
      stop = new AbortController()
      call(client, wanted, stop.signal)
    }
  }
  await client.close()
}

async function call(client, { tool, arguments: given, limit_s, reset }, signal) {
  const options = {
    signal,
    timeout: limit_s ? limit_s * 1000 : undefined,
    resetTimeoutOnProgress: Boolean(reset),
    onprogress: ({ message, _meta }) => say({ progress: message, run_id: _meta?.['planloom/run_id'] })
  }
  try {
    const result = await client.call({ name: tool, arguments: given }, options)
    const { content, structuredContent, isError } = result
    const is_error = Boolean(isError)
    say({ result: { text: content[0].text, structured: structuredContent, is_error } })
  } catch (error) {
    say({ error: String(error.message ?? error) })
  }
}
