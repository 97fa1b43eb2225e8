import { curlOf, pythonOf, scriptOf } from './request-examples.ts'
import { plural } from './format.ts'
import { linesOf } from './engine-state.ts'
import { call, RequestError, savedKey, saveKey } from './gateway.ts'
import type { Pool } from './wire.ts'
import './overview.css'

interface Fleet {
  readonly draining: boolean
  readonly pools: readonly Pool[]
}

const refreshMs = 5_000
/** A hung gateway closes no connection, so requests have a time limit. */
const answerMs = 10_000
const copiedMs = 1_500

const find = <Kind extends HTMLElement = HTMLElement>(id: string) => document.getElementById(id) as Kind
const base = new URL('v1', location.href).href

function showState(text: string, tone: 'good' | 'warn' | 'bad' | ''): void {
  find('state').textContent = text
  find('state').className = tone
}

function show({ pools, draining }: Fleet): void {
  const lines = linesOf(pools)
  const up = lines.filter(({ state }) => state === 'up').length
  const models = [...new Set(pools.map(({ model, aliases }) => aliases[0] ?? model))]
  find('unlock').hidden = true
  showState(
    [
      lines.length === 0 ? 'no engine is configured' : `${up} of ${plural(lines.length, 'engine')} up`,
      ...(models.length === 0 ? [] : [models.length === 1 ? models[0]! : plural(models.length, 'model')]),
      ...(draining ? ['shutting down'] : []),
    ].join(' · '),
    draining || up === 0 ? 'bad' : up < lines.length ? 'warn' : 'good',
  )
  if (models[0] !== undefined) showExamples(models[0])
}

function showExamples(model: string): void {
  find('curl').textContent = curlOf(base, model)
  find('python').textContent = pythonOf(base, model)
  find('script').textContent = scriptOf(base, model)
}

/** The gateway's message about a missing key is for API clients, so the page shows its own. */
const whyNot = ({ status, message }: RequestError) =>
  status === 401 && savedKey() === null ? 'locked: enter admin.secret of the configuration' : message

async function refresh(): Promise<void> {
  try {
    show((await (await call('v1/firstlight/fleet', { signal: AbortSignal.timeout(answerMs) })).json()) as Fleet)
  } catch (error) {
    const isLocked = error instanceof RequestError && error.status === 401
    showState(error instanceof RequestError ? whyNot(error) : 'the gateway does not answer', isLocked ? '' : 'bad')
    if (error instanceof RequestError) find('unlock').hidden = !isLocked
  }
}

/** Copies a text. Without HTTPS, browsers have no clipboard API except on loopback. */
async function copy(source: HTMLElement): Promise<void> {
  if (navigator.clipboard !== undefined) return navigator.clipboard.writeText(source.textContent ?? '')
  getSelection()?.selectAllChildren(source)
  document.execCommand('copy')
}

for (const button of document.querySelectorAll<HTMLButtonElement>('[data-copy]')) {
  const source = find(button.dataset['copy']!)
  button.setAttribute('aria-label', `Copy ${button.dataset['copy']}`)
  const showLabel = (text: string) => {
    button.textContent = text
    setTimeout(() => (button.textContent = 'Copy'), copiedMs)
  }
  button.addEventListener('click', () => {
    copy(source).then(
      () => showLabel('Copied'),
      () => showLabel('Select and copy it'),
    )
  })
}
find('unlock').addEventListener('submit', (event) => {
  event.preventDefault()
  const field = find<HTMLInputElement>('key')
  saveKey(field.value)
  field.value = ''
  void refresh()
})
find('base').textContent = base
showExamples('MODEL')
/** Polls with one request at a time. */
async function refreshForever(): Promise<void> {
  if (!document.hidden) await refresh()
  setTimeout(() => void refreshForever(), refreshMs)
}
void refreshForever()
