//! Wake-up across processes by NOTIFY and LISTEN: a shortcut beside polling, never a promise (rule R24).

mod listen;
mod notify;
mod settings;

pub use listen::ListenWakeup;
pub use notify::NotifyWakeup;
pub use settings::WakeupSettings;
