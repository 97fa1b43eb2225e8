// Starts simulated engines and a gateway, sends requests, and runs until Ctrl-C. Works on Node 20.
import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const firstlight = fileURLToPath(new URL('../bin/firstlight.mjs', import.meta.url))
const argv = process.argv.slice(2)
const portFlag = argv.indexOf('--port')
/** Port of the gateway; the engines use the next ones. */
const port = portFlag < 0 ? 9100 : Number(argv[portFlag + 1])
const once = argv.includes('--once')
if (!Number.isInteger(port) || port < 1 || port > 65_500) {
  console.error(`--port must be a whole number from 1 to 65500, got "${argv[portFlag + 1] ?? ''}".`)
  process.exit(2)
}

/**
 * Runs an example until SIGINT.
 * `folder`: URL of the example; its firstlight.yaml uses ports from 9100 on.
 * `fleet`: flags of `firstlight fleet`; `env`: its environment. `questions`: chat bodies, each with a line `about` it;
 * with
 * a `requestId`, the TTFT report of the request is printed too.
 */
export async function runExample({ folder, fleet, env = {}, questions }) {
  const scratch = mkdtempSync(join(tmpdir(), 'firstlight-'))
  const config = join(scratch, 'firstlight.yaml')
  const moved = (text) => text.replaceAll(/\b91(\d\d)\b/g, (_, at) => String(port + Number(at)))
  const text = moved(readFileSync(new URL('firstlight.yaml', folder), 'utf8'))
  writeFileSync(config, text)
  const reporting = Object.fromEntries(Object.entries(env).map(([name, value]) => [name, moved(value)]))
  const children = [start(reporting, 'fleet', ...fleet, '--port', String(port + 1))]
  const stop = () => {
    for (const child of children) child.kill('SIGTERM')
  }
  process.once('SIGINT', stop)
  process.once('SIGTERM', stop)
  try {
    for (const [, engine] of text.matchAll(/url: (http\S+?) /g)) await ready(`${engine}/health`, children)
    children.push(start({}, 'serve', '--config', config))
    await ready(`http://127.0.0.1:${port}/ready`, children)
    for (const question of questions) await ask(question)
    if (!once) console.log('\nPress Ctrl-C to stop.')
    else stop()
  } catch (error) {
    console.error(String(error))
    process.exitCode = 1
    stop()
  }
  await Promise.all(children.map(ended))
  rmSync(scratch, { recursive: true })
}

function start(env, ...args) {
  return spawn(process.execPath, [firstlight, ...args], {
    stdio: ['ignore', 'ignore', 'inherit'],
    env: { ...process.env, ...env },
  })
}

const ended = (child) =>
  new Promise((resolve) =>
    child.exitCode === null && child.signalCode === null ? child.once('exit', resolve) : resolve(),
  )

async function ready(url, children) {
  for (let tries = 0; tries < 600; tries += 1) {
    if (children.some(({ exitCode }) => exitCode !== null))
      throw new Error(`A process did not start. If a port from ${port} on is in use, try --port 19100.`)
    const response = await fetch(url).catch(() => null)
    if (response?.status === 200) return
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  throw new Error(`${url} did not become ready within a minute.`)
}

/** Prints a curl command and its response. */
async function ask({ about, body, requestId }) {
  const url = `http://127.0.0.1:${port}/v1/chat/completions`
  const json = JSON.stringify(body)
  const headers = {
    'content-type': 'application/json',
    ...(requestId === undefined ? {} : { 'x-request-id': requestId }),
  }
  const flags = Object.entries(headers).map(([name, value]) => ` -H '${name}: ${value}'`)
  console.log(`\n${about}\n\n  curl -iN ${url}${flags.join('')} -d '${json}'\n`)
  const response = await fetch(url, { method: 'POST', headers, body: json })
  for (const name of ['x-firstlight-prefill', 'x-firstlight-engine', 'server-timing']) {
    const value = response.headers.get(name)
    if (value !== null) console.log(`  ${name}: ${value}`)
  }
  const text = await response.text()
  if (response.status !== 200) throw new Error(`HTTP ${response.status}: ${text}`)
  const words = [...text.matchAll(/"content":"((?:[^"\\]|\\.)*)"/g)].map((match) => JSON.parse(`"${match[1]}"`))
  console.log(`  ${words.join('').trim()}`)
  if (requestId !== undefined) await showReport(requestId)
}

/** Waits for the report: engines send the last stage after their response. */
async function showReport(requestId) {
  const url = `http://127.0.0.1:${port}/ttft_report/${requestId}`
  for (let tries = 0; tries < 100; tries += 1) {
    const report = await (await fetch(url)).json()
    if (report.combined?.ttft_ms != null) return console.log(`\n  curl ${url}\n  ${JSON.stringify(report.combined)}`)
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  throw new Error(`${url} did not become complete.`)
}
