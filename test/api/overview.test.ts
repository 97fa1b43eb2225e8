import { runInNewContext } from 'node:vm'
import { describe, expect, it } from 'vitest'
import { createGateway } from '../../src/gateway.ts'
import { configOf, openWorld } from './fleet.ts'

async function asset(path: string): Promise<Response> {
  const world = openWorld()
  return createGateway(configOf(), world.ports, { assets: async () => new Uint8Array() }).fetch(new Request(`http://localhost${path}`), world.scope)
}

/** As little of a page as the script touches. */
class Element {
  textContent = ''
  hidden = true
  className = ''
  value = ''
  children: Element[] = []
  listener: ((event: { preventDefault(): void }) => void) | null = null
  append(...children: Element[]): void {
    this.children.push(...children)
  }
  replaceChildren(...children: Element[]): void {
    this.children = children
  }
  addEventListener(_name: string, listener: (event: { preventDefault(): void }) => void): void {
    this.listener = listener
  }
}

interface Page {
  readonly find: (id: string) => Element
  readonly rows: () => string[][]
  readonly asked: { headers: Readonly<Record<string, string>> }[]
}

/** Runs the page's script against an answer of the fleet endpoint. */
async function run(status: number, answer: unknown): Promise<Page> {
  const elements = new Map<string, Element>()
  const asked: Page['asked'] = []
  const find = (id: string): Element => elements.get(id) ?? elements.set(id, new Element()).get(id)!
  const script = await (await asset('/overview.js')).text()
  runInNewContext(script, {
    document: { hidden: false, getElementById: find, querySelector: find, createElement: () => new Element() },
    location: { href: 'http://localhost/' },
    URL,
    setInterval: () => 0,
    fetch: async (_url: string, init: { headers: Record<string, string> }) => {
      asked.push(init)
      return { ok: status === 200, status, json: async () => answer }
    },
  })
  await new Promise((resolve) => setImmediate(resolve))
  return { find, asked, rows: () => find('#engines tbody').children.map((row) => row.children.map(({ textContent }) => textContent)) }
}

const engine = { id: 'a', role: 'any', available: true, healthy: true, draining: false, asleep: false, circuit: 'closed', requests: 2, queued_prefill_s: 0.25, ttft_ms: null, requests_total: 9, failures_total: 1 }
const fleet = { draining: false, pools: [{ cluster: 'paris', model: 'm', aliases: ["it's"], reachable: true, engines: [engine, { ...engine, id: 'b', available: false, circuit: 'open' }] }] }

describe('the overview', () => {
  it('holds no inline script, style or handler, so that its policy can forbid them', async () => {
    const page = await (await asset('/')).text()
    expect(page).not.toMatch(/<style|style=|\son\w+=|<script(?![^>]*src=)/)
    for (const [, path] of page.matchAll(/(?:href|src)="([^"]+)"/g)) expect((await asset(`/${path}`)).status).toBe(200)
  })

  it('fills every element its script looks for', async () => {
    const page = await (await asset('/')).text()
    const script = await (await asset('/overview.js')).text()
    for (const [, id] of script.matchAll(/find\('(\w+)'\)/g)) expect(page).toContain(`id="${id}"`)
  })

  it('shows engines with their state', async () => {
    const { rows, find } = await run(200, fleet)
    expect(rows()).toEqual([
      ['a', 'paris', 'm', 'any', 'up', '2', '0.3 s', '–', '9', '1'],
      ['b', 'paris', 'm', 'any', 'circuit open', '2', '0.3 s', '–', '9', '1'],
    ])
    expect(find('engines').hidden).toBe(false)
    expect(find('state').textContent).toBe('2 in 1 pool')
  })

  it('writes a command that survives a quote in a model’s name', async () => {
    const { find } = await run(200, fleet)
    expect(find('curl').textContent).toContain(`it'\\''s`)
    expect(find('curl').textContent).toContain('http://localhost/v1/chat/completions')
  })

  it('asks for the admin key where one is needed, and sends it', async () => {
    const page = await run(401, { error: { message: 'The admin key is missing.' } })
    expect(page.find('unlock').hidden).toBe(false)
    expect(page.find('state').textContent).toBe('The admin key is missing.')
    page.find('key').value = 'k'
    page.find('unlock').listener!({ preventDefault: () => undefined })
    expect(page.asked.at(-1)!.headers).toEqual({ authorization: 'Bearer k' })
    expect(page.find('key').value).toBe('')
  })
})
