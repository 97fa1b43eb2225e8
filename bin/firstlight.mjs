#!/usr/bin/env node
// Finds the right way to start on the Node that happens to be here. Must run on Node 20, so: plain, old JavaScript.
import { spawn } from 'node:child_process'
import { existsSync, readdirSync, statSync } from 'node:fs'
import { constants } from 'node:os'
import { fileURLToPath } from 'node:url'
import { servingEnv, servingFlags } from './serving-flags.mjs'

const path = (relative) => fileURLToPath(new URL(relative, import.meta.url))
const source = path('../src/node.ts')
const bundle = path('../dist/node.mjs')
const localNode = path('../node_modules/node/bin/node')
const argv = process.argv.slice(2)
// Without a command it serves too, or shows what that would be like.
const serves = argv[0] === undefined || argv[0] === 'serve' || argv[0].startsWith('-')
/** Whoever gives Node flags of their own decides alone. */
const ours = serves && process.execArgv.length === 0
const flags = ours ? servingFlags : []
const env = ours ? servingEnv(process.env) : process.env

if (!existsSync(source) || isFresh(bundle)) {
  // An installed package has nothing else: Node strips no types below node_modules.
  if (Number(process.versions.node.split('.')[0]) >= 22) await run(bundle)
  else if (existsSync(localNode)) restart()
  else
    fail(
      `firstlight needs Node 22 or newer; this is ${process.version}.`,
      'Install a newer Node from https://nodejs.org and try again.',
    )
} else if (process.features.typescript) {
  await run(source)
} else if (existsSync(localNode)) {
  restart()
} else {
  fail(
    `Node ${process.version} cannot run TypeScript sources.`,
    'Run "npm ci" in this folder: it installs the Node that can, beside the other packages.',
  )
}

/** Is it made of the sources as they are? It starts in a third of their time, and with two thirds of their memory. */
function isFresh(file) {
  if (!existsSync(file)) return false
  const made = statSync(file).mtimeMs
  // Of folders too: a file that is gone changes nothing else.
  const parts = readdirSync(path('../src'), { recursive: true }).map((name) => `../src/${name}`)
  return ['../package-lock.json', './serving-flags.mjs', '../src', ...parts].every(
    (name) => statSync(path(name)).mtimeMs < made,
  )
}

/** Flags of the engine count from its start only: where this process can be replaced by one that has them, it is. */
async function run(entry) {
  if (flags.length > 0 && process.execve !== undefined && !process.connected) {
    process.execve(process.execPath, [process.execPath, ...flags, ...process.argv.slice(1)], env)
  }
  await import(entry)
}

/** The same command line on the Node that npm installed here. Signals and exit code pass through. */
function restart() {
  const child = spawn(localNode, [...flags, fileURLToPath(import.meta.url), ...argv], { stdio: 'inherit', env })
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', ...(process.platform === 'win32' ? [] : ['SIGUSR2'])])
    process.on(signal, () => child.kill(signal))
  child.on('error', (error) => fail(`Cannot start ${localNode}: ${error.message}`, 'Run "npm ci" again.'))
  child.on('exit', (code, signal) => {
    process.exitCode = signal === null ? code : 128 + (constants.signals[signal] ?? 0)
  })
}

function fail(message, next) {
  console.error(`${message}\n${next}`)
  process.exitCode = 1
}
