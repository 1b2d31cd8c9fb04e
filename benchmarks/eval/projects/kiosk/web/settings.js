import dotenv from 'dotenv'

dotenv.config({ path: ['.env.local', '.env'], quiet: true })

export const settings = {
  port: Number(process.env.KIOSK_PORT ?? 8471),
  counterKey: process.env.KIOSK_COUNTER_KEY ?? '',
  verbose: process.env.KIOSK_VERBOSE === '1'
}
