#!/usr/bin/env node
// Starts the program on the installed Node. Plain JavaScript, because it must run on Node 20.
import { spawn } from 'node:child_process'
import { existsSync, readdirSync, statSync } from 'node:fs'
import { constants } from 'node:os'
import { fileURLToPath } from 'node:url'
import { servingEnv, servingFlags } from './serving-flags.mjs'

const path = (relative) => fileURLToPath(new URL(relative, import.meta.url))
const source = path('./program.ts')
const bundle = path('../dist/node/program.mjs')
const localNode = path('../node_modules/node/bin/node')
const argv = process.argv.slice(2)
// Without a command it serves or runs the demo.
const serves = argv[0] === undefined || argv[0] === 'serve' || argv[0].startsWith('-')
/** Own Node flags of the caller replace ours. */
const ours = serves && process.execArgv.length === 0
const flags = ours ? servingFlags : []
const env = ours ? servingEnv(process.env) : process.env

if (!existsSync(source) || isFresh(bundle)) {
  // An installed package has only the bundle, because Node does not strip types below node_modules.
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

/** Whether the bundle is newer than the sources. It starts in a third of the time with two thirds of the memory. */
function isFresh(file) {
  if (!existsSync(file)) return false
  const made = statSync(file).mtimeMs
  const tools = ['simulator', 'replay', 'convert'].map((name) => `../packages/${name}/src`)
  const folders = ['.', '../src', ...tools.filter((folder) => existsSync(path(folder)))]
  // Folders too, because a deleted file changes only its folder.
  const parts = folders.flatMap((folder) => [folder, ...filesBelow(folder)])
  return ['../package-lock.json', ...parts].every((name) => statSync(path(name)).mtimeMs < made)
}

function filesBelow(folder) {
  return readdirSync(path(folder), { recursive: true }).map((name) => `${folder}/${name}`)
}

/** V8 flags only take effect at the start, so the process is replaced by one that has them where possible. */
async function run(entry) {
  if (flags.length > 0 && process.execve !== undefined && !process.connected) {
    process.execve(process.execPath, [process.execPath, ...flags, ...process.argv.slice(1)], env)
  }
  await import(entry)
}

/** Runs the same command line on the Node that npm installed here. Passes on signals and the exit code. */
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
