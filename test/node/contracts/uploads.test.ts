import { uploadsContract } from '../../contracts/uploads.ts'

uploadsContract('node')
uploadsContract('worker')
