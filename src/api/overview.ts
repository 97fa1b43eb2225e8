import type { Incoming } from './incoming.ts'
import { page } from './page.ts'

const PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Firstlight</title>
<link rel="stylesheet" href="overview.css">
<script src="overview.js" defer></script>
</head>
<body>
<header><h1>Firstlight</h1><p>One OpenAI endpoint in front of a fleet. Each request goes to the engine that gives the first token soonest.</p></header>
<main>
<section>
<h2>Engines <small id="state" role="status">loading</small></h2>
<p><a href="dashboard">Dashboard: the whole fleet, live</a></p>
<form id="unlock" hidden><label>Admin key <input id="key" type="password" autocomplete="off" required></label> <button>Show engines</button></form>
<div class="wide"><table id="engines" hidden>
<thead><tr><th scope="col">engine</th><th scope="col">cluster</th><th scope="col">model</th><th scope="col">role</th><th scope="col">state</th><th scope="col">running</th><th scope="col">prefill queue</th><th scope="col">TTFT</th><th scope="col">requests</th><th scope="col">failures</th></tr></thead>
<tbody></tbody>
</table></div>
</section>
<section>
<h2>Try it</h2>
<pre id="curl">curl</pre>
<p>Any OpenAI SDK works: set its base URL to <code id="base">/v1</code>. Answers say where they came from: <code>x-firstlight-engine</code>.</p>
</section>
<section>
<h2>Point it at your own engines</h2>
<pre># firstlight.yaml
clusters:
  - id: local
    pools:
      - model: Qwen/Qwen3-8B
        engines:
          - { id: a, url: http://10.0.0.1:8000 }
          - { id: b, url: http://10.0.0.2:8000 }</pre>
<pre>firstlight check --config firstlight.yaml
firstlight serve --config firstlight.yaml</pre>
</section>
</main>
<footer><a href="health">/health</a> <a href="ready">/ready</a> <a href="version">/version</a></footer>
</body>
</html>
`

const STYLE = `:root { color-scheme: light dark; --ink: #1b2130; --dim: #5b6579; --paper: #fbfaf7; --panel: #fff; --line: #e2dfd6; --good: #1d7a46; --bad: #b3261e; --glow: #a84c0e }
@media (prefers-color-scheme: dark) { :root { --ink: #e7e9ee; --dim: #9aa4b5; --paper: #12151b; --panel: #1a1e26; --line: #2b313c; --good: #61c98b; --bad: #ff8a80; --glow: #f0a35e } }
* { box-sizing: border-box }
body { margin: 0 auto; padding: 2rem 1rem; max-width: 68rem; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif }
h1 { margin: 0; color: var(--glow); font-size: 1.7rem }
h2 { margin: 2rem 0 .6rem; font-size: 1.1rem }
header p { margin: .2rem 0 0; color: var(--dim) }
small { color: var(--dim); font-weight: 400 }
.wide { overflow-x: auto }
table { width: 100%; border-collapse: collapse; background: var(--panel); border: 1px solid var(--line); font-variant-numeric: tabular-nums }
th, td { padding: .4rem .7rem; text-align: left; border-bottom: 1px solid var(--line); white-space: nowrap }
th { color: var(--dim); font-weight: 500; font-size: .85rem } th:nth-child(n+6) { text-align: right }
td.number { text-align: right }
td.up { color: var(--good) } td.down { color: var(--bad) }
pre { margin: .5rem 0; padding: .8rem 1rem; overflow-x: auto; background: var(--panel); border: 1px solid var(--line); border-radius: 6px; font-size: .85rem }
#curl { white-space: pre-wrap; overflow-wrap: anywhere }
footer { margin-top: 2.5rem; color: var(--dim) } a { color: inherit; margin-right: 1rem }
input, button { font: inherit; padding: .3rem .6rem; color: var(--ink); background: var(--panel); border: 1px solid var(--line); border-radius: 5px }
`

const SCRIPT = `'use strict'
const find = (id) => document.getElementById(id)
const base = new URL('v1', location.href).href
let key = null

const cell = (text, kind) => {
  const td = document.createElement('td')
  td.textContent = text
  if (kind) td.className = kind
  return td
}
const number = (value, unit) => cell(value === null || value === undefined ? '\\u2013' : (Math.round(value * 10) / 10) + (unit || ''), 'number')

function stateOf(engine) {
  if (engine.available === null) return ['unknown', '']
  if (engine.draining) return ['draining', 'down']
  if (engine.asleep) return ['asleep', 'down']
  if (!engine.healthy) return ['unhealthy', 'down']
  if (engine.circuit !== 'closed') return ['circuit ' + engine.circuit, 'down']
  return engine.available ? ['up', 'up'] : ['unavailable', 'down']
}

function row(pool, engine) {
  const tr = document.createElement('tr')
  tr.append(
    cell(engine.id), cell(pool.cluster), cell(pool.model), cell(engine.role), cell(...stateOf(engine)),
    number(engine.requests), number(engine.queued_prefill_s, ' s'), number(engine.ttft_ms, ' ms'),
    number(engine.requests_total), number(engine.failures_total),
  )
  return tr
}

function show(fleet) {
  const rows = fleet.pools.flatMap((pool) => pool.engines.map((engine) => row(pool, engine)))
  document.querySelector('#engines tbody').replaceChildren(...rows)
  find('engines').hidden = false
  find('unlock').hidden = true
  const dark = fleet.pools.filter((pool) => !pool.reachable).length
  find('state').textContent = rows.length + ' in ' + fleet.pools.length + (fleet.pools.length === 1 ? ' pool' : ' pools') +
    (dark ? ', ' + dark + ' not reachable' : '') + (fleet.draining ? ', shutting down' : '')
  const model = fleet.pools[0] && (fleet.pools[0].aliases[0] || fleet.pools[0].model)
  if (model) example(model)
}

function example(model) {
  const body = JSON.stringify({ model, stream: true, messages: [{ role: 'user', content: 'Hello' }] })
  find('curl').textContent = 'curl -N ' + base + "/chat/completions -H 'content-type: application/json' -d '" + body.replaceAll("'", "'\\\\''") + "'"
}

async function refresh() {
  try {
    const response = await fetch('v1/firstlight/fleet', { headers: key === null ? {} : { authorization: 'Bearer ' + key } })
    if (response.ok) return show(await response.json())
    const { error } = await response.json()
    find('state').textContent = error.message
    find('unlock').hidden = response.status !== 401
    find('engines').hidden = true
  } catch {
    find('state').textContent = 'the gateway does not answer'
  }
}

find('unlock').addEventListener('submit', (event) => {
  event.preventDefault()
  key = find('key').value
  find('key').value = ''
  refresh()
})
find('base').textContent = base
example('MODEL')
refresh()
setInterval(() => { if (!document.hidden) refresh() }, 2000)
`

/** The page at `/`: what runs, live, and how to point the gateway at one's own engines. It holds no data; its script asks for them. */
export const overviewPage = (incoming: Incoming): Response => page(incoming, 'text/html', PAGE)
export const overviewStyle = (incoming: Incoming): Response => page(incoming, 'text/css', STYLE)
export const overviewScript = (incoming: Incoming): Response => page(incoming, 'text/javascript', SCRIPT)
